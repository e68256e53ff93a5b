package session_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestManyIdleSessions adds up the memory of each of many sessions.
func TestManyIdleSessions(t *testing.T) {
	const limit = 12 << 20 // bytes of memory for one, its PID 1 included
	n := hosttest.Rounds(10, 1000)
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		*pipeline.EnsureSettings[session.Config](c) = session.Config{PerNamespace: n, Total: n}
	})
	before := hosttest.Descendants(os.Getpid())
	ids := make(chan string, n)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for len(ids) < n {
				info, err := pipelinetest.OpenSession(t.Context(), p, session.New{Language: "python"})
				if err != nil {
					break // there are as many as there may be
				}
				ids <- info.ID
			}
		})
	}
	all.Wait()
	close(ids)
	if len(ids) != n {
		t.Fatalf("%d sessions, want %d", len(ids), n)
	}
	var sum int64
	for pid := range hosttest.Descendants(os.Getpid()) {
		if before[pid] == "" {
			sum += pss(pid)
		}
	}
	t.Logf("%d sessions of %.1f MB each", n, float64(sum)/float64(n)/(1<<20))
	if sum/int64(n) > limit {
		t.Errorf("a session takes %d bytes, more than %d", sum/int64(n), limit)
	}
	for id := range ids {
		if res := pipelinetest.Cell(t, p, id, "x = 1; x + 1", nil); res.Value["text/plain"] != "2" {
			t.Fatalf("session %s: %+v", id, res)
		}
	}
	p.Close()
	for pid := range hosttest.Descendants(os.Getpid()) {
		if before[pid] == "" && !strings.Contains(name(pid), "launch") {
			t.Errorf("left: %d %s", pid, name(pid))
		}
	}
}

func name(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// pss is a process's share of memory, in bytes: pages that several have count by parts.
func pss(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			var kb int64
			fmt.Sscan(rest, &kb)
			return kb << 10
		}
	}
	return 0
}
