package main

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// TestKilledAtAnyMoment kills the program while it runs scripts. Afterwards the log is whole, each
// result that was handed out has its row, and no process, mount or cgroup of a run is left.
func TestKilledAtAnyMoment(t *testing.T) {
	need(t, "sandbox", "bash")
	program, err := exec.LookPath("sandboxmcp") // testscript.Main puts the test binary there
	if err != nil {
		t.Fatal(err)
	}
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	dir := t.TempDir()
	db := filepath.Join(dir, "audit.db")
	script := filepath.Join(dir, "run.sh")
	marker := "marker-" + filepath.Base(filepath.Dir(dir)) + filepath.Base(dir)
	if err := os.WriteFile(script, []byte("echo done; exec -a \"$1\" sleep 0.02"), 0o644); err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := leftovers(t, temp)
	acknowledged := 0
	for range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(150))*time.Millisecond)
		out, err := exec.CommandContext(ctx, program, "--db", db, "run", "--json", script, "--", marker).Output()
		cancel()
		if err == nil && strings.Contains(string(out), `"ended":"ok"`) {
			acknowledged++
		}
	}
	t.Logf("%d of %d runs were acknowledged", acknowledged, rounds)

	log, err := audit.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	report, err := log.Verify(t.Context(), audit.VerifyOptions{})
	if err != nil || report.Bad != nil {
		t.Errorf("the log is not whole: %v, %+v", err, report.Bad)
	}
	completed := 0
	for _, err := range log.Rows(t.Context(), audit.Filter{Kinds: []string{"execution.completed"}}) {
		if err != nil {
			t.Fatal(err)
		}
		completed++
	}
	if completed < acknowledged {
		t.Errorf("%d runs were acknowledged, and the log has %d", acknowledged, completed)
	}
	// The next run sweeps up what the killed ones could not.
	if out, err := exec.Command(program, "--db", db, "run", script, "--", marker).CombinedOutput(); err != nil {
		t.Errorf("a run after the kills: %v: %s", err, out)
	}
	var processes []string
	for range 100 {
		if processes = commandLines(marker); len(processes) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if len(processes) > 0 {
		t.Errorf("processes are left: %q", processes)
	}
	if after := leftovers(t, temp); after != before {
		t.Errorf("left behind:\n%s\nbefore there was:\n%s", after, before)
	}
}

// commandLines returns the command lines of all processes in which text occurs.
func commandLines(text string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// leftovers lists what runs leave on the host if nobody cleans up: mounts, and temporary files.
func leftovers(t *testing.T, temp string) string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "sandboxmcp") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	folders, _ := filepath.Glob(filepath.Join(temp, "*"))
	return strings.Join(append(list, folders...), "\n")
}
