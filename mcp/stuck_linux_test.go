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

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// TestStuckStart stops all processes that a program could be started by, as a kernel that does not answer does: a call is
// answered with the step that is not, one that is cancelled leaves its slot, and the server ends.
func TestStuckStart(t *testing.T) {
	dir := t.TempDir()
	backend := process.New(process.Config{StateDir: filepath.Join(dir, "state"), StartTimeout: 2 * time.Second, KillTimeout: 100 * time.Millisecond})
	cfg, end, err := wireTo(context.Background(), dir, backend)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, cfg: cfg, s: New(cfg)}
	r.s.lastCalls = time.Millisecond
	p := r.hello("2025-11-25", `{}`)
	call := func() chan reply {
		_, answer := p.start("tools/call", `{"name":"execute_code","arguments":{"language":"shell","code":"true","timeout":5}}`)
		return answer
	}
	if m := p.wait(call()); !strings.Contains(m.line, "exit code 0") {
		hosttest.Missing(t, "sandbox", m.line)
	}
	idle := func() bool { s := cfg.Pipeline.Stats(); return s.Running == 0 && s.Waiting == 0 }

	stopped := stop()
	defer func() { signal(stopped, syscall.SIGCONT) }()
	m := p.wait(call())
	if !strings.Contains(m.line, "within 2s") || !strings.Contains(m.line, "what to do") {
		t.Errorf("got %s", m.line)
	}
	hosttest.Until(t, "its slot is free", idle)

	stopped = append(stopped, stop()...)
	id, answer := p.start("tools/call", `{"name":"execute_code","arguments":{"language":"shell","code":"true","timeout":5}}`)
	hosttest.Until(t, "it has a slot", func() bool { return !idle() || len(answer) > 0 })
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	hosttest.Until(t, "the slot of one that was cancelled is free", idle)

	stopped = append(stopped, stop()...)
	call()
	hosttest.Until(t, "another has a slot", func() bool { return !idle() })
	p.close() // and what it is made of
	end()
}

// stop stops all processes that this one has started, and those that they have.
func stop() (all []int) {
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
