package run_test

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"
	"github.com/sandboxmcp/sandboxmcp/pipeline/install"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/status"
	"github.com/sandboxmcp/sandboxmcp/pipeline/web"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// watched is a backend that reports each sandbox that starts.
type watched struct {
	backends.Backend
	started func(backends.Spec)
}

func (b watched) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	b.started(spec)
	return b.Backend.Start(ctx, spec)
}

// rooms are the packages of effects.
var rooms = []string{"containment", "host", "inside", "install", "run", "session", "status", "web", "workspace"}

// waysIn lists the exported methods of Pipeline, and the exported functions of rooms that take one.
func waysIn(t *testing.T) (all []string) {
	t.Helper()
	for method := range reflect.TypeFor[*pipeline.Pipeline]().Methods() {
		all = append(all, method.Name)
	}
	for _, room := range rooms {
		files, err := filepath.Glob(filepath.Join("..", room, "*.go"))
		if err != nil || files == nil {
			t.Fatalf("%v, no files of %s", err, room)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				fn, is := d.(*ast.FuncDecl)
				if is && fn.Recv == nil && fn.Name.IsExported() &&
					slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool { return types.ExprString(p.Type) == "*pipeline.Pipeline" }) {
					all = append(all, room+"."+fn.Name.Name)
				}
			}
		}
	}
	return all
}

// ofRooms are entries that only effects and holders of their state use: the second table of TestOneWayIn.
var ofRooms = strings.Fields(`NewRun Close ForgetApprovals Go ResolveLimits NewRedactor OnClose SetSessionLeases PublishEvent RecordRow
	containment.DataMounts containment.Choose containment.Overlap containment.PackagesOf containment.DecisionRecorder containment.RuntimeOf containment.SessionLanguage containment.ExposesOwnFiles containment.CheckHome
	session.AddProgram session.DropProgram session.FindSession session.WithAgent session.SpoolUnnamed session.Prepare
	workspace.CheckProposal workspace.FindNamed`)

// coreState matches the use of a pipeline's own state, by which rows, limits and effects under way can be changed.
var coreState = regexp.MustCompile(`\b[pP]ipeline\.(Budget|Counters|Journal|NamespaceLimits|Under)\.|\bNamespaceLimits\.Set\(`)

// TestOneWayIn calls every way in but those of rooms, and fails where one leaves a row in the log, starts a sandbox or
// changes a session or a limit, other than through Do. One that it does not know fails it, too, and so does one of
// rooms that others use.
func TestOneWayIn(t *testing.T) {
	var mu sync.Mutex
	var method string
	var beside []string // effects outside of Do
	saw := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if stack := debug.Stack(); method != "" && !bytes.Contains(stack, []byte("pipeline.Do[...](")) &&
			!bytes.Contains(stack, []byte("created by github.com/sandboxmcp/sandboxmcp/pipeline/run.(*execution).Start")) {
			beside = append(beside, method+": "+what)
		}
	}
	p, log, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		c.Backends[0] = watched{c.Backends[0], func(spec backends.Spec) {
			if !slices.Contains([]string{"run.Analyze", "install.List"}, method) { // which look, in a sandbox of their own
				saw("a sandbox of " + spec.Language)
			}
		}}
		pipeline.EnsureSettings[host.Config](c).Enabled = true
		pipeline.EnsureSettings[workspace.Config](c).Dir = t.TempDir()
	})
	log.Fail = func(entries []audit.Entry) error {
		for _, e := range entries {
			saw("a row of " + e.Kind)
		}
		return nil
	}
	memory.Set("default", "TOKEN", []byte("abc123def456ghi"))
	info := pipelinetest.Open(t, p, session.New{Guest: true})
	ctx := t.Context()
	_, out, err := pipeline.Do(ctx, p, run.Request{Language: "shell", Code: []byte("echo x >new.txt"),
		HostFiles: run.HostFiles{Workspace: backends.Mount{Host: t.TempDir(), Propose: true}}})
	if err != nil || out.Changes == nil {
		t.Fatalf("%v, no change set", err)
	}
	set := out.Changes.ID
	calls := map[string]func(){
		"FollowProgram":              func() { p.FollowProgram(ctx, "default", "none", pipeline.Follower{}) },
		"HasFreeSlots":               func() { p.HasFreeSlots(backends.Limits{CPU: 1}) },
		"LimitsInForce":              func() { p.LimitsInForce("default") },
		"Load":                       func() { p.Load() },
		"FindPast":                   func() { p.FindPast(ctx, "default", info.ID) },
		"CheckRecordable":            func() { p.CheckRecordable() },
		"ListRunning":                func() { p.ListRunning("") },
		"RunningCode":                func() { p.RunningCode("default", "none") },
		"SecretNames":                func() { p.SecretNames(ctx, "default") },
		"containment.CheckAskable":   func() { containment.CheckAskable(p, "example.com") },
		"containment.DataNames":      func() { containment.DataNames(p) },
		"containment.OtherLanguage":  func() { containment.OtherLanguage(p, "perl", "") },
		"containment.OtherLanguages": func() { containment.OtherLanguages(p) },
		"containment.Probe":          func() { containment.Probe(ctx, p, "") },
		"containment.Reachable":      func() { containment.Reachable(p) },
		"host.AccessOf":              func() { host.AccessOf(p, "default", info.ID) },
		// which nobody is asked for, and that is in the log
		"host.AskFor":          func() { host.AskFor(ctx, p, "default", "command", "sh -c *", "to see") },
		"host.Enabled":         func() { host.Enabled(p) },
		"host.RedactQuestion":  func() { host.RedactQuestion(ctx, p, &approval.Question{Namespace: "default", What: "run true"}) },
		"inside.ListFiles":     func() { inside.ListFiles(ctx, p, "default", info.ID, "", 1) },
		"inside.OpenFiles":     func() { inside.OpenFiles(ctx, p, "default", info.ID, "none") },
		"inside.Processes":     func() { inside.Processes(p, "default", info.ID) },
		"inside.ReadDirectory": func() { inside.ReadDirectory(ctx, p, "default", info.ID, "none") },
		"inside.ReadFile":      func() { inside.ReadFile(ctx, p, "default", info.ID, "none") },
		"inside.Start": func() {
			inside.Start(ctx, p, inside.StartProcess{Process: inside.Process{Session: info.ID, Args: []string{"true"}}})
		},
		"inside.StatFile": func() { inside.StatFile(ctx, p, "default", info.ID, "none") },
		"inside.WatchFiles": func() {
			inside.WatchFiles(ctx, p, "default", info.ID, guest.Watch{Path: "none"}, func(func(context.Context) error) error { return nil },
				func(guest.Event) error { return nil })
		},
		"install.List":     func() { install.List(ctx, p, "", "default", "python") },
		"install.Question": func() { install.Question(ctx, p, install.Request{Language: "python", Packages: []string{"six"}}) },
		"run.Analyze": func() {
			run.Analyze(ctx, p, validate.Code{Language: "python", Source: []byte("x = 1\n")}, validate.Options{})
		},
		"run.StartJob": func() {
			_, done := run.StartJob(ctx, p, run.Request{Language: "shell", Code: []byte("true")})
			<-done
		},
		"run.CancelJob":           func() { run.CancelJob(p, "default", "none") },
		"run.JobOf":               func() { run.JobOf(p, "default", "none") },
		"run.Jobs":                func() { run.Jobs(p, "") },
		"run.Resume":              func() { run.Resume(ctx, p, "default", "none", nil, nil) },
		"run.WaitJob":             func() { run.WaitJob(ctx, p, "default", "none") },
		"session.EndedChan":       func() { session.EndedChan(p, "default", info.ID) },
		"session.HasSnapshot":     func() { session.HasSnapshot(p, "default", info.ID) },
		"session.InfoOf":          func() { session.InfoOf(p, "default", info.ID) },
		"session.Inspect":         func() { session.Inspect(ctx, p, "default", info.ID) },
		"session.List":            func() { session.List(p, "") },
		"session.PausedInfo":      func() { session.PausedInfo(p, "default", info.ID) },
		"session.Programs":        func() { session.Programs(p, "default", info.ID) },
		"session.Enqueue":         func() { session.Enqueue(ctx, p, "default", "none") },
		"session.UsageOf":         func() { session.UsageOf(p, "default", info.ID) },
		"status.Now":              func() { status.Now(p) },
		"status.NowOf":            func() { status.NowOf(p, func(string) bool { return true }) },
		"web.IsEnabled":           func() { web.IsEnabled(p) },
		"workspace.Ask":           func() { workspace.Ask(ctx, p, "default", set, "", "") }, // whose answer is an effect
		"workspace.Diff":          func() { workspace.Diff(ctx, p, changes.Set{ID: set, Namespace: "default"}, nil) },
		"workspace.Export":        func() { workspace.Export(io.Discard, p, changes.Set{ID: set}, nil) },
		"workspace.Find":          func() { workspace.Find(p, set, func(string) bool { return true }) },
		"workspace.FindQuestion":  func() { workspace.FindQuestion(p, "default", set) },
		"workspace.Get":           func() { workspace.Get(p, "default", set) },
		"workspace.HasNamed":      func() { workspace.HasNamed(p) },
		"workspace.List":          func() { workspace.List(p, changes.Filter{}) },
		"workspace.DescribeNamed": func() { workspace.DescribeNamed(p, "default") },
	}
	state := func() (all []any) {
		for _, i := range session.List(p, "") {
			i.Used, i.State = session.Info{}.Used, "" // to look at a session is no use of it that anybody could tell; its end would show in Ended
			all = append(all, i)
		}
		limits, caps := p.LimitsInForce("default")
		return append(all, limits, caps)
	}
	before := state()
	for _, name := range waysIn(t) {
		call, known := calls[name]
		if slices.Contains(ofRooms, name) {
			continue
		}
		if !known {
			t.Errorf("%s is new: have it do what it does through Do, and say here how it is called", name)
			continue
		}
		mu.Lock()
		method = name
		mu.Unlock()
		call()
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("%s changes something: %s", name, diff)
		}
	}
	for _, dir := range []string{"../../mcp", "../../cli", "../control", "../page"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, name := range ofRooms {
				if strings.Contains(name, ".") && regexp.MustCompile(`\b`+name+`\(`).Match(text) ||
					name != "Close" && regexp.MustCompile(`[pP]ipeline\.`+name+`\(`).Match(text) {
					t.Errorf("%s calls %s, which is for effects alone", path, name)
				}
			}
			for _, used := range coreState.FindAll(text, -1) {
				t.Errorf("%s uses %s, which is for effects alone", path, used)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, effect := range beside {
		t.Errorf("outside of Do, %s", effect)
	}
}
