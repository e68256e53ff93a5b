package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestManyIdleSessions adds up what each of many takes.
func TestManyIdleSessions(t *testing.T) {
	const limit = 12 << 20 // bytes of memory for one, its PID 1 included
	n := hosttest.Long(10, 1000)
	p, _, _ := newReal(t, func(c *Config) { c.Sessions = session.Config{PerNamespace: n, Total: n} })
	before := descendants(t)
	ids := make(chan string, n)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for len(ids) < n {
				info, err := openSession(t.Context(), p, NewSession{Language: "python"})
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
	for pid := range descendants(t) {
		if !before[pid] {
			sum += pss(pid)
		}
	}
	t.Logf("%d sessions of %.1f MB each", n, float64(sum)/float64(n)/(1<<20))
	if sum/int64(n) > limit {
		t.Errorf("a session takes %d bytes, more than %d", sum/int64(n), limit)
	}
	for id := range ids {
		if res := cell(t, p, id, "x = 1; x + 1", nil); res.Value["text/plain"] != "2" {
			t.Fatalf("session %s: %+v", id, res)
		}
	}
	p.Close()
	for pid := range descendants(t) {
		if !before[pid] && !strings.Contains(name(pid), "launch") {
			t.Errorf("left: %s %s", pid, name(pid))
		}
	}
}

func name(pid string) string {
	text, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// descendants are the processes below this one.
func descendants(t *testing.T) map[string]bool {
	t.Helper()
	descendants := map[string][]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, _ := os.ReadFile(file)
		if fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])); len(fields) > 1 && fields[0] != "Z" {
			descendants[fields[1]] = append(descendants[fields[1]], filepath.Base(filepath.Dir(file)))
		}
	}
	all := map[string]bool{}
	for queue := descendants[strconv.Itoa(os.Getpid())]; len(queue) > 0; queue = queue[1:] {
		all[queue[0]] = true
		queue = append(queue, descendants[queue[0]]...)
	}
	return all
}

// pss is a process's share of memory, in bytes: pages that several have count by parts.
func pss(pid string) int64 {
	text, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			var kb int64
			fmt.Sscan(rest, &kb)
			return kb << 10
		}
	}
	return 0
}
