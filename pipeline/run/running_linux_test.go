package run_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// follower stores the parts that it receives.
type follower struct {
	mu      sync.Mutex
	out     [2]bytes.Buffer
	bundles []kernel.Bundle
}

func (f *follower) all() pipeline.Follower {
	return pipeline.Follower{
		Output: func(n int, b []byte) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.out[n].Write(b)
			return nil
		},
		Display: func(b kernel.Bundle) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.bundles = append(f.bundles, b)
			return nil
		},
	}
}

func (f *follower) text(n int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out[n].String()
}

// TestFollow: a later observer sees all output of a program, as the program writes it, and no secret; namespaces see
// nothing of each other.
func TestFollow(t *testing.T) {
	p, _, memory := pipelinetest.NewReal(t, nil)
	memory.Set("team", "TOKEN", []byte("abc123def456ghi"))
	r, wait := begun(t, p, run.Request{Namespace: "team", Language: "shell", Client: "agent", Reach: run.Reach{Secrets: []string{"TOKEN"}},
		Code: []byte("echo begins; echo $TOKEN abc123def456ghi; echo two >&2; while ! [ -e go ]; do sleep 0.05; done; echo ends")})
	if r.Namespace != "team" || r.Client != "agent" || r.State != "running" || r.Limits.RAM == 0 || r.Usage == nil || r.Usage.Processes == 0 {
		t.Errorf("got %+v", r)
	}
	if list := p.ListRunning("other"); len(list) != 0 {
		t.Errorf("another namespace sees %+v", list)
	}
	var f follower
	if err := p.FollowProgram(t.Context(), "other", r.Run, f.all()); !errors.Is(err, pipeline.ErrNotRunning) {
		t.Errorf("of another namespace: %v", err)
	}
	if _, _, err := p.RunningCode("other", r.Run); !errors.Is(err, pipeline.ErrNotRunning) {
		t.Errorf("code of another namespace: %v", err)
	}
	if code, language, err := p.RunningCode("team", r.Run); err != nil || language != "shell" ||
		!strings.Contains(string(code), "echo begins") || strings.Contains(string(code), "abc123def456ghi") {
		t.Errorf("got %q, %s, %v", code, language, err)
	}
	followed := make(chan error, 1)
	go func() { followed <- p.FollowProgram(context.Background(), "team", r.Run, f.all()) }()
	hosttest.Until(t, "the output is there", func() bool { return strings.Contains(f.text(0), "REDACTED") && f.text(1) == "two\n" })
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.FollowProgram(left, "team", r.Run, f.all()); !errors.Is(err, context.Canceled) {
		t.Errorf("a follower that leaves: %v", err)
	}
	if _, _, err := pipeline.Do(t.Context(), p, pipeline.Interrupt{Namespace: "other", Run: r.Run, Kill: true}); !errors.Is(err,
		pipeline.ErrNotRunning) {
		t.Errorf("another namespace kills it: %v", err)
	}
	if _, _, err := pipeline.Do(pipeline.WithCaller(t.Context(), pipeline.Caller{By: "page", User: "ada"}), p, pipeline.Interrupt{
		Namespace: "team", Run: r.Run, Kill: true,
	}); err != nil {
		t.Error(err)
	}
	if res := wait(); res.Ended != backends.EndedCancelled {
		t.Errorf("got %+v", res)
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
	if text := f.text(0); !strings.HasPrefix(text, "begins\n") || strings.Contains(text, "abc123") || strings.Contains(text, "ends") {
		t.Errorf("got %q", text)
	}
	if list := p.ListRunning(""); len(list) != 0 {
		t.Errorf("it is over, and %+v", list)
	}
	if err := p.FollowProgram(t.Context(), "team", r.Run, f.all()); !errors.Is(err, pipeline.ErrNotRunning) {
		t.Errorf("it is over: %v", err)
	}
}

// TestInterrupt: a program gets a signal that it can handle, a cell its language's exception, and the log names the
// sender.
func TestInterrupt(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	r, wait := begun(t, p, run.Request{Language: "shell",
		Code: []byte("trap 'echo handled; exit 3' INT; echo ready; while :; do sleep 0.05; done")})
	var f follower
	go func() { _ = p.FollowProgram(context.Background(), r.Namespace, r.Run, f.all()) }()
	hosttest.Until(t, "it has set its trap", func() bool { return f.text(0) == "ready\n" })
	if _, _, err := pipeline.Do(pipeline.WithCaller(t.Context(), pipeline.Caller{By: "page", User: "ada"}), p, pipeline.Interrupt{
		Namespace: r.Namespace, Run: r.Run,
	}); err != nil {
		t.Fatal(err)
	}
	if res := wait(); res.ExitCode != 3 || res.Stdout != "ready\nhandled\n" {
		t.Errorf("got %+v", res)
	}
	info := pipelinetest.Open(t, p, session.New{})
	r, wait = begun(t, p, run.Request{Where: run.Where{Session: info.ID}, Code: []byte("x = 5\nwhile True: pass")})
	_, _, _ = pipeline.Do(t.Context(), p, pipeline.Interrupt{Namespace: r.Namespace, Run: r.Run})
	if res := wait(); res.Ended == backends.EndedOK || res.Session != info.ID {
		t.Errorf("got %+v", res)
	}
	if res := pipelinetest.Cell(t, p, info.ID, "print(6*7)", nil); res.Stdout != "42\n" {
		t.Errorf("the session is gone: %+v", res)
	}
	found := 0
	for row, err := range log.Rows(t.Context(), audit.Filter{Kinds: []string{"execution.interrupted"}}) {
		if err != nil {
			t.Fatal(err)
		}
		found++
		if found == 1 && (!strings.Contains(string(row.Data), `"user":"ada"`) || !strings.Contains(string(row.Data), `"by":"page"`) ||
			!strings.Contains(string(row.Data), `"kill":false`)) {
			t.Errorf("got %s", row.Data)
		}
	}
	if found == 0 {
		t.Error("no row says who did it")
	}
}
