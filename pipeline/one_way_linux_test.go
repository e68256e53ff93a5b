package pipeline

import (
	"bytes"
	"context"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
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

// TestOneWayIn calls every exported method of Pipeline but Close, and fails where one leaves a row in the log, starts a sandbox or
// changes a session or a limit, other than through Do. A method that it does not know fails it, too.
func TestOneWayIn(t *testing.T) {
	var mu sync.Mutex
	var method string
	var beside []string // effects outside of Do
	saw := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if stack := debug.Stack(); method != "" && !bytes.Contains(stack, []byte("pipeline.Do[...](")) &&
			!bytes.Contains(stack, []byte("created by github.com/sandboxmcp/sandboxmcp/pipeline.(*execution).start")) {
			beside = append(beside, method+": "+what)
		}
	}
	p, log, memory := newReal(t, func(c *Config) {
		c.Backends[0] = watched{c.Backends[0], func(spec backends.Spec) {
			if !slices.Contains([]string{"Analyze", "Installed"}, method) { // which look, in a sandbox of their own
				saw("a sandbox of " + spec.Language)
			}
		}}
		c.Host.Enabled = true
	})
	log.fail = func(entries []audit.Entry) error {
		for _, e := range entries {
			saw("a row of " + e.Kind)
		}
		return nil
	}
	memory.Set("default", "TOKEN", []byte("abc123def456ghi"))
	info := open(t, p, NewSession{Guest: true})
	ctx := t.Context()
	calls := map[string][]any{
		"Analyze":         {ctx, validate.Code{Language: "python", Source: []byte("x = 1\n")}, validate.Options{}},
		"AskFor":          {"example.com"},
		"AskForHost":      {ctx, "default", "command", "sh -c *", "to see"}, // which nobody is asked for, and that is in the log
		"Begin":           {ctx, Request{Language: "shell", Code: []byte("true")}},
		"CancelJob":       {"default", "none"},
		"Follow":          {ctx, "default", "none", Follower{}},
		"OtherLanguage":   {"perl", ""},
		"OtherLanguages":  {},
		"DataNames":       {},
		"ListFiles":       {ctx, "default", info.ID, "", 1},
		"Processes":       {"default", info.ID},
		"Past":            {ctx, "default", info.ID},
		"Paused":          {"default", info.ID},
		"HasSnapshot":     {"default", info.ID},
		"OpenFiles":       {ctx, "default", info.ID, "none"},
		"ReadDirectory":   {ctx, "default", info.ID, "none"},
		"ReadFile":        {ctx, "default", info.ID, "none"},
		"SessionEnd":      {"default", info.ID},
		"Start":           {ctx, StartProcess{Process: Process{Session: info.ID, Args: []string{"true"}}}},
		"Resume":          {ctx, "default", "none", []ToolResult{}, (func(ToolCall) bool)(nil)},
		"StatFile":        {ctx, "default", info.ID, "none"},
		"WatchFiles":      {ctx, "default", info.ID, guest.Watch{Path: "none"}, func(func(context.Context) error) error { return nil }, func(guest.Event) error { return nil }},
		"Free":            {backends.Limits{CPU: 1}},
		"HostAccess":      {"default", info.ID},
		"HostEnabled":     {},
		"InForce":         {"default"},
		"Inspect":         {ctx, "default", info.ID},
		"InstallQuestion": {ctx, Install{Language: "python", Packages: []string{"six"}}},
		"Installed":       {ctx, "", "default", "python"},
		"Job":             {"default", "none"},
		"Jobs":            {""},
		"Load":            {},
		"Probe":           {ctx, ""},
		"Reachable":       {},
		"Recordable":      {},
		"RedactQuestion":  {ctx, &approval.Question{Namespace: "default", What: "run true"}},
		"SecretNames":     {ctx, "default"},
		"Running":         {""},
		"RunningCode":     {"default", "none"},
		"Session":         {"default", info.ID},
		"Sessions":        {""},
		"Stand":           {ctx, "default", "none"},
		"Stats":           {},
		"StatsOf":         {func(string) bool { return true }},
		"Usage":           {"default", info.ID},
		"WaitJob":         {ctx, "default", "none"},
		"WebOn":           {},
	}
	state := func() (all []any) {
		for _, i := range p.Sessions("") {
			i.Used, i.State = session.Info{}.Used, "" // to look at a session is no use of it that anybody could tell; its end would show in Ended
			all = append(all, i)
		}
		limits, caps := p.InForce("default")
		return append(all, limits, caps)
	}
	before := state()
	pipelines := reflect.TypeOf(p)
	for i := range pipelines.NumMethod() {
		name := pipelines.Method(i).Name
		arguments, known := calls[name]
		if name == "Close" {
			continue
		}
		if !known {
			t.Errorf("%s is new: have it do what it does through Do, and say here how it is called", name)
			continue
		}
		var in []reflect.Value
		for _, a := range arguments {
			in = append(in, reflect.ValueOf(a))
		}
		mu.Lock()
		method = name
		mu.Unlock()
		for _, out := range reflect.ValueOf(p).MethodByName(name).Call(in) {
			if done, ok := out.Interface().(<-chan struct{}); ok && name != "SessionEnd" { // of a session that goes on
				<-done
			}
		}
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("%s changes something: %s", name, diff)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, effect := range beside {
		t.Errorf("outside of Do, %s", effect)
	}
}
