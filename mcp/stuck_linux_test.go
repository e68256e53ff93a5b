package mcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/status"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// TestStuckStart stops all processes that could start a program, like an unresponsive kernel: a call is answered with
// the failed step, and the server ends.
func TestStuckStart(t *testing.T) {
	r, end := stuckRig(t, 2*time.Second)
	p := r.hello("2025-11-25", `{}`)
	call := func() chan reply {
		_, answer := p.start("tools/call", `{"name":"execute_code","arguments":{"language":"shell","code":"true","timeout":5}}`)
		return answer
	}
	if m := p.wait(call()); !strings.Contains(m.line, "exit code 0") {
		hosttest.SkipMissing(t, "sandbox", m.line)
	}
	var stopped []int
	defer func() { signal(stopped, syscall.SIGCONT) }()
	var m reply
	hosttest.Until(t, "a start is stuck", func() bool { // not one by a process started meanwhile
		stopped = append(stopped, stopDescendants()...)
		m = p.wait(call())
		return !strings.Contains(m.line, "exit code 0")
	})
	if !strings.Contains(m.line, "within 2s") || !strings.Contains(m.line, "what to do") {
		t.Errorf("got %s", m.line)
	}
	hosttest.Until(t, "its slot is free", r.isIdle)
	stopped = append(stopped, stopDescendants()...)
	call()
	hosttest.Until(t, "another has a slot", func() bool { return !r.isIdle() })
	p.close() // and its resources
	end()
}

// TestStuckStartCancelled cancels a call whose start would block for hours: it releases its slot.
func TestStuckStartCancelled(t *testing.T) {
	r, end := stuckRig(t, 10*time.Hour)
	p := r.hello("2025-11-25", `{}`)
	if m := p.call("tools/call", `{"name":"execute_code","arguments":{"language":"shell","code":"true"}}`); !strings.Contains(m.line,
		"exit code 0") {
		hosttest.SkipMissing(t, "sandbox", m.line)
	}
	stopped := stopDescendants()
	id, answer := p.start("tools/call", `{"name":"execute_code","arguments":{"language":"shell","code":"true","timeout":5}}`)
	hosttest.Until(t, "it has a slot", func() bool { return !r.isIdle() || len(answer) > 0 })
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	hosttest.Until(t, "its slot is free", r.isIdle)
	if len(answer) > 0 {
		t.Errorf("got %s", (<-answer).line)
	}
	signal(stopped, syscall.SIGCONT)
	p.close()
	end()
}

func stuckRig(t *testing.T, start time.Duration) (r *rig, end func()) {
	dir := t.TempDir()
	backend := process.New(process.Config{StateDir: filepath.Join(dir, "state"), StartTimeout: start, KillTimeout: 100 * time.Millisecond})
	cfg, end, err := wireTo(context.Background(), dir, backend)
	if err != nil {
		t.Fatal(err)
	}
	r = &rig{t: t, cfg: cfg, s: New(cfg)}
	r.s.CallGrace = time.Millisecond
	return r, end
}

// isIdle reports whether no call has or awaits a slot.
func (r *rig) isIdle() bool {
	s := status.Now(r.cfg.Pipeline)
	return s.Running == 0 && s.Waiting == 0
}

// stopDescendants stops all descendants of this process.
func stopDescendants() (all []int) {
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", next[0]))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			for field := range strings.FieldsSeq(string(text)) {
				var pid int
				fmt.Sscan(field, &pid)
				next, all = append(next, pid), append(all, pid)
			}
		}
	}
	signal(all, syscall.SIGSTOP)
	return all
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}
