package vault

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// startAndWait starts processes at once, waits for them, and returns their output.
func startAndWait(t *testing.T, processes ...*exec.Cmd) (lines []string) {
	t.Helper()
	var outs []*strings.Builder
	for _, p := range processes {
		out := &strings.Builder{}
		outs, p.Stdout = append(outs, out), out
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range processes {
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(outs[i].String()), "\n")...)
	}
	return lines
}

// TestManyProcesses: processes that start at once make one key, and none loses another's secret.
func TestManyProcesses(t *testing.T) {
	for range hosttest.Rounds(2, 5) {
		s := sealKeys(t)
		var all []*exec.Cmd
		for i := range 6 {
			all = append(all, adder(t, s.dir, "P"+strconv.Itoa(i)+"_", 10))
		}
		keys := startAndWait(t, all...)
		if len(keys) != 60 {
			t.Fatalf("%d of 60 were added: %q", len(keys), keys)
		}
		for _, key := range keys {
			wantValue(t, s, key)
		}
		if left, _ := os.ReadDir(s.dir); len(left) != 2 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// TestOneWins: one of the processes that add the same secret succeeds.
func TestOneWins(t *testing.T) {
	s := sealKeys(t)
	var all []*exec.Cmd
	for range 6 {
		all = append(all, adder(t, s.dir, "SAME", 1))
	}
	lines := startAndWait(t, all...)
	won := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.Contains(l, "already") })
	if len(lines) != 6 || len(won) != 1 || won[0] != "SAME" {
		t.Errorf("got %q", lines)
	}
	wantValue(t, s, "SAME")
}

// TestKilledWhileAdding kills processes that add secrets at random moments, in new directories and in an existing
// one. Every confirmed secret is there, and the next process can continue.
func TestKilledWhileAdding(t *testing.T) {
	kills, promised, early := hosttest.Rounds(16, 60), 0, 0
	old := sealKeys(t)
	for i := range kills {
		s := old
		if i%2 == 0 {
			s = sealKeys(t)
		}
		keys := addUntilKilled(t, s, "K"+strconv.Itoa(i)+"_", i%4)
		promised += len(keys)
		if len(keys) == 0 {
			early++
		}
		for _, key := range keys {
			wantValue(t, s, key)
		}
		next := "NEXT" + strconv.Itoa(i)
		if err := s.Add(t.Context(), Entry{Namespace: "default", Key: next}, valueOf(next), false); err != nil {
			t.Fatalf("after a kill: %v", err)
		}
		wantValue(t, s, next)
		entries, problems, err := s.List(t.Context(), "")
		if len(entries) < len(keys)+1 || problems != nil || err != nil {
			t.Fatalf("after a kill: %d secrets, %v, %v", len(entries), problems, err)
		}
		wantTidy(t, s)
	}
	t.Logf("%d kills, %d of them before the first secret; %d secrets promised", kills, early, promised)
	if promised == 0 || early == 0 {
		t.Error("the kills came all too early or all too late: that tests nothing")
	}
}

// TestAbandoned: old leftovers are removed; files that another process may be writing just now are not.
func TestAbandoned(t *testing.T) {
	s := sealKeys(t, "KEY")
	old, fresh := filepath.Join(s.dir, ".new-vault-old"), filepath.Join(s.dir, ".new-vault-fresh")
	for _, dir := range []string{old, fresh} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	statefile.RemoveAbandoned(s.dir, tempKind, statefile.AbandonedAge)
	if left, _ := filepath.Glob(filepath.Join(s.dir, ".new-vault-*")); !slices.Equal(left, []string{fresh}) {
		t.Errorf("left: %v", left)
	}
}

// addUntilKilled kills the process right after its start, at a random moment, or some time after its first
// confirmed secret.
func addUntilKilled(t *testing.T, s *Sealed, prefix string, when int) (keys []string) {
	t.Helper()
	cmd := adder(t, s.dir, prefix, 10_000)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killIn := func(maxDelay time.Duration) { time.AfterFunc(rand.N(maxDelay), func() { cmd.Process.Kill() }) }
	switch when {
	case 0:
		killIn(time.Millisecond)
	case 1, 2:
		killIn(60 * time.Millisecond)
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		if strings.HasPrefix(in.Text(), "error") {
			t.Error(in.Text())
		}
		keys = append(keys, in.Text())
		if len(keys) == 1 && when == 3 {
			killIn(20 * time.Millisecond)
		}
	}
	cmd.Wait()
	return keys
}

// wantTidy checks that old leftovers of killed processes are removed.
func wantTidy(t *testing.T, s *Sealed) {
	t.Helper()
	ago := time.Now().Add(-time.Hour)
	left, _ := filepath.Glob(filepath.Join(s.dir, ".new-vault-*"))
	for _, dir := range left {
		if err := os.Chtimes(dir, ago, ago); err != nil {
			t.Fatal(err)
		}
	}
	statefile.RemoveAbandoned(s.dir, tempKind, statefile.AbandonedAge)
	if left, _ := os.ReadDir(s.dir); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}
