package run_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

func TestNoRowNoStart(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Log.FailAt(event.ExecutionStarted)
	res, err := r.Shell("echo ran", nil)
	e := pipelinetest.Stopped(t, err)
	below, is := errors.AsType[*pipeline.UnrecordedError](err)
	if e.Stage != pipeline.StageAudit || strings.Contains(e.Error(), "no space left on device") || !is ||
		below.Error() != "no space left on device" {
		t.Errorf("error %+v, below %v: clients are told that, and not why", e, below)
	}
	if n := r.Backend.Execs.Load(); n != 0 {
		t.Errorf("the program was run %d times without a row", n)
	}
	if res.Stdout != "" || res.Ended != "refused" {
		t.Errorf("got result %+v", res)
	}
}

func TestNoRowNoResult(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	dir := t.TempDir()
	r.Log.FailAt(event.ExecutionCompleted)
	res, err := r.Shell("echo precious; echo precious > file", func(q *run.Request) { q.Artifacts = dir })
	e := pipelinetest.Stopped(t, err)
	if e.Stage != pipeline.StageAudit {
		t.Errorf("got error %+v", e)
	}
	if strings.Contains(fmt.Sprintf("%+v %v", res, err), "precious") || len(res.Artifacts) > 0 || res.Ended == "ok" {
		t.Errorf("a result that is not in the log was handed out: %+v", res)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("artifacts of a withheld result were left: %v", left)
	}
	kinds, _ := r.Rows()
	if want := []string{event.ExecutionStarted, event.ExecutionFailed}; !slices.Equal(kinds, want) {
		t.Errorf("rows %v, want %v", kinds, want)
	}
}

func TestWithoutLogNothingRuns(t *testing.T) {
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Audit = nil })
	_, err := r.Shell("echo ran", nil)
	if pipelinetest.Stopped(t, err).Stage != pipeline.StageAudit || r.Backend.Execs.Load() != 0 {
		t.Errorf("ran without a log: %v", err)
	}
}

// The sandbox may be built while the row is written, but the program must not begin.
func TestProgramWaitsForItsRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.NewRig(t, nil)
		r.Log.Delay = make(chan struct{})
		done := make(chan error)
		go func() {
			_, err := r.Shell("echo ran", nil)
			done <- err
		}()
		synctest.Wait()
		if built, n := r.Backend.Starts.Load(), r.Backend.Execs.Load(); built != 1 || n != 0 {
			t.Errorf("before its row was durable, %d sandboxes were built, and the program began %d times", built, n)
		}
		close(r.Log.Delay)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := r.Backend.Execs.Load(); n != 1 {
			t.Errorf("the program was run %d times, want once", n)
		}
	})
}

func TestEveryEndHasItsRow(t *testing.T) {
	for _, test := range []struct {
		name, code string
		change     func(*run.Request)
		last       string
	}{
		{"ok", "true", nil, event.ExecutionCompleted},
		{"exit", "exit 3", nil, event.ExecutionCompleted},
		{"timeout", "exec sleep 1000", func(q *run.Request) { q.Limits.Wall = 100 * time.Millisecond }, event.ExecutionTimeout},
		{"missing secret", "true", func(q *run.Request) { q.Secrets = []string{"NONE"} }, pipeline.ExecutionRefused},
		{"another's secret", "true", func(q *run.Request) { q.Namespace, q.Secrets = "team", []string{"TOKEN"} }, pipeline.ExecutionRefused},
		{"above a cap", "true", func(q *run.Request) { q.Limits.RAM = 1 << 50 }, pipeline.ExecutionRefused},
		{"unknown backend", "true", func(q *run.Request) { q.Backend = "nope" }, pipeline.ExecutionRefused},
		{"unknown profile", "true", func(q *run.Request) { q.Profile = "nope" }, pipeline.ExecutionRefused},
		{"unknown layer", "true", func(q *run.Request) { q.Require = []string{"nope"} }, pipeline.ExecutionRefused},
		{"unknown language", "true", func(q *run.Request) { q.Language = "cobol" }, pipeline.ExecutionRefused},
		{"syntax", "let = ;", func(q *run.Request) { q.Language, q.Name = "node", "x.js" }, pipeline.ExecutionRefused},
		{"network", "true", func(q *run.Request) { q.Allow = []string{"example.com"} }, pipeline.ExecutionRefused},
		{"bad domain", "true", func(q *run.Request) { q.Allow = []string{"http://["} }, pipeline.ExecutionRefused},
		{"bad env", "true", func(q *run.Request) { q.Env = []string{"A"} }, pipeline.ExecutionRefused},
		{"bad namespace", "true", func(q *run.Request) { q.Namespace = "../x" }, pipeline.ExecutionRefused},
		{"bad id", "true", func(q *run.Request) { q.ID = "../../etc" }, pipeline.ExecutionRefused},
		{"bad input", "true", func(q *run.Request) { q.Inputs = []run.Input{{Name: "../x"}} }, pipeline.ExecutionRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := pipelinetest.NewRig(t, nil)
			r.Memory.Set("default", "TOKEN", []byte(password))
			res, err := r.Shell(test.code, test.change)
			kinds, text := r.Rows()
			if len(kinds) == 0 || kinds[len(kinds)-1] != test.last {
				t.Fatalf("rows %v, want the last to be %s", kinds, test.last)
			}
			if !strings.Contains(text, res.ID) {
				t.Errorf("the rows do not name the run %s:\n%s", res.ID, text)
			}
			if test.last != pipeline.ExecutionRefused {
				if kinds[0] != event.ExecutionStarted {
					t.Errorf("rows %v, want the first to be %s", kinds, event.ExecutionStarted)
				}
				if err != nil {
					t.Errorf("got error %v for a program that ran", err)
				}
				return
			}
			if e := pipelinetest.Stopped(t, err); e.Reason == "" || !e.Denied || res.Refused != e || res.Ended != "refused" {
				t.Errorf("got %+v and result %+v", e, res)
			}
			if r.Backend.Execs.Load() != 0 {
				t.Error("it was run all the same")
			}
		})
	}
}

func TestRowsHoldNoCodeNoValuesNoOutput(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Memory.Set("default", "TOKEN", []byte("hunter2-hunter2"))
	_, err := r.Shell("# code-4711\necho output-4711 > out; echo output-4711; echo $TOKEN > $TOKEN", func(q *run.Request) {
		q.Env = []string{"NAME=value-4711"}
		q.Args = []string{"argument-4711"}
		q.Secrets = []string{"TOKEN"}
		q.Inputs = []run.Input{{Name: "in", Content: []byte("input-4711")}}
	})
	if err != nil {
		t.Fatal(err)
	}
	_, syntaxErr := r.Shell("let 'code-4711' = ;", func(q *run.Request) { q.Language, q.Name = "node", "x.js" })
	if syntaxErr == nil {
		t.Error("no syntax error")
	}
	_, text := r.Rows()
	for _, leak := range []string{"4711", "hunter2"} {
		if strings.Contains(text, leak) {
			t.Errorf("the log holds %q:\n%s", leak, text)
		}
	}
	for _, want := range []string{`"code_sha256"`, `"env":["NAME"]`, `"secrets":["TOKEN"]`, `"args":1`, `"inputs":1`, `"layers":["user"`,
		`"artifacts":2`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
}

// A program must not get rid of its record by making it too large to be written.
func TestLongNamesDoNotBreakTheRecord(t *testing.T) {
	r, keys := signing(t, nil)
	dir := t.TempDir()
	res, err := r.Shell(`n=$(printf '\001%.0s' {1..200}); for i in $(seq 1200); do : > "$i-$n"; done`,
		func(q *run.Request) { q.Artifacts = dir })
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Artifacts) == 0 {
		t.Error("no artifacts")
	}
	kinds, _ := r.Rows()
	if !slices.Contains(kinds, event.ExecutionCompleted) {
		t.Errorf("rows %v", kinds)
	}
	// The receipt does not name them all, and still vouches for each.
	trust, err := signer.ReadTrust(keys.Dir())
	if err != nil {
		t.Fatal(err)
	}
	proof, problems := signer.VerifyReceipt(res.Receipt, trust)
	if len(problems) > 0 || proof.ArtifactsUnlisted == 0 {
		t.Fatalf("%+v, %d of %d unlisted", problems, proof.ArtifactsUnlisted, len(res.Artifacts))
	}
	for _, change := range []struct {
		name string
		do   func()
		good bool
	}{
		{"nothing", func() {}, true},
		{"an unlisted file", func() {
			os.WriteFile(filepath.Join(dir, res.Artifacts[len(res.Artifacts)-1].Name), []byte("forged"), 0o600)
		}, false},
		{"the list", func() { os.Remove(filepath.Join(dir, "SHA256SUMS")) }, false},
	} {
		change.do()
		if problems, err := proof.VerifyDirectory(signer.Directory{Path: dir}); err != nil || (len(problems) == 0) != change.good {
			t.Errorf("after a change of %s: %d problems, %v", change.name, len(problems), err)
		}
	}
}

func TestListenersHearOnlyWhatTheLogHolds(t *testing.T) {
	bus := event.NewBus()
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Bus = bus })
	listening, _, _ := bus.Listen(event.Filter{Namespace: "default"}, 100, 0)
	events, cancel := listening.Events(), listening.Cancel
	r.Log.FailAt(event.ExecutionCompleted)
	r.Shell("echo x > file", nil)
	r.Log.Fail = nil
	r.Shell("true", func(q *run.Request) { q.Backend = "nope" })
	cancel()
	var heard []string
	for e := range events {
		heard = append(heard, e.Name)
	}
	if want := []string{event.ExecutionStarted, event.ExecutionFailed, event.ExecutionFailed}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

func TestBusyIsRecordedAndNamed(t *testing.T) {
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Queue = pipeline.NewQueue(1, 0) })
	leave, err := r.Config.Queue.Acquire(t.Context(), "default", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	_, err = r.Shell("true", nil)
	if !errors.Is(err, pipeline.ErrBusy) || pipelinetest.Stopped(t, err).Remedy.IsZero() {
		t.Errorf("got %v, want ErrBusy with a remedy", err)
	}
	if kinds, _ := r.Rows(); !slices.Equal(kinds, []string{pipeline.ExecutionRefused}) {
		t.Errorf("rows %v", kinds)
	}
	leave()
}

func TestSavedArtifactsMatchTheirSums(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	dir := t.TempDir()
	res, err := r.Shell("printf hello > a.txt; mkdir d; printf world > d/b.txt", func(q *run.Request) { q.Artifacts = dir })
	if err != nil || len(res.Artifacts) != 2 {
		t.Fatalf("%v, artifacts %+v", err, res.Artifacts)
	}
	got, err := os.ReadFile(filepath.Join(dir, "d/b.txt"))
	if err != nil || string(got) != "world" || res.Artifacts[1].SHA256 != pipeline.Hash([]byte("world")) {
		t.Errorf("%v: %q, %+v", err, got, res.Artifacts)
	}
}

// Half a secret is not recognized, so nothing may be cut before the secrets are taken out.
func TestSecretsAreTakenOutBeforeRowsAreCut(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2"
	for at := pipeline.MaxText - len(secret) - 1; at <= pipeline.MaxText; at++ {
		long := strings.Repeat("ä", at/2) + strings.Repeat("/", at%2) + secret + strings.Repeat("x", 40)
		r := pipelinetest.NewRig(t, nil)
		r.Memory.Set("default", "TOKEN", []byte(secret))
		_, err := r.Shell("true", func(q *run.Request) {
			q.Secrets = []string{"TOKEN"}
			q.Mounts = []backends.Mount{{Host: "/" + long, Inside: "/" + long}}
		})
		if err != nil {
			t.Fatal(err)
		}
		_, text := r.Rows()
		if strings.Contains(text, "hunter") {
			t.Errorf("at %d the log holds the secret's beginning:\n%s", at, text)
		}
		if !strings.Contains(text, "...") || strings.Contains(text, "\uFFFD") || strings.Contains(text, `\ufffd`) {
			t.Errorf("at %d it was not cut, or in the middle of a character:\n%s", at, text)
		}
	}
}

func TestRowsHoldTheBeginningOfLongLists(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	_, err := r.Shell("true", func(q *run.Request) {
		for i := range 300 {
			q.Env = append(q.Env, fmt.Sprintf("V%d=1", i))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, text := r.Rows(); !strings.Contains(text, `"V99","and 200 more"]`) || strings.Contains(text, "V100") {
		t.Errorf("got %s", text)
	}
}

func TestWithheldResultLeavesOwnFilesAlone(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Memory.Set("default", "TOKEN", []byte("hunter2-hunter2"))
	dir := project(t, map[string]string{"leak": "mine", "SHA256SUMS": "mine"})
	r.Log.FailAt(event.ExecutionCompleted)
	_, err := r.Shell("echo $TOKEN > leak", func(q *run.Request) { q.Secrets, q.Artifacts = []string{"TOKEN"}, dir })
	pipelinetest.Stopped(t, err)
	for _, name := range []string{"leak", "SHA256SUMS"} {
		if own, err := os.ReadFile(filepath.Join(dir, name)); string(own) != "mine" {
			t.Errorf("the user's own %s is gone: %q, %v", name, own, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

// For a log that can't be written, the command line gets a remedy that can be typed. The text for clients, which may be
// on another machine, says where the reason can be seen.
func TestRemedyOfALog(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&os.PathError{Op: "write", Path: "/var/log.db", Err: syscall.ENOSPC}, "audit rotate --keep 90d"},
		{errors.New("row 7 is gone"), "audit verify"},
	} {
		r := pipelinetest.NewRig(t, nil)
		r.Log.Fail = func([]audit.Entry) error { return tt.err }
		_, err := r.Shell("echo ran", nil)
		if got := pipelinetest.Stopped(t, err).Remedy.String(); !strings.Contains(got, "sandboxmcp "+tt.want) ||
			strings.Contains(got, "who runs") {
			t.Errorf("%v: %q", tt.err, got)
		}
		if got := pipeline.PublicText(err); !strings.Contains(got, "("+pipeline.SeeServerLog+")") || strings.Contains(got, "sandboxmcp") ||
			strings.Contains(got, "/var") {
			t.Errorf("%v: clients read %q", tt.err, got)
		}
	}
}
