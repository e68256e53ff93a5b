package main

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// TestKilledAtAnyMoment kills the program while it runs scripts. Afterwards the log is whole, each
// result that was handed out has its row, each run has one end, and no process, mount, cgroup or file of a run is left.
func TestKilledAtAnyMoment(t *testing.T) {
	need(t, "sandbox", "bash")
	home := t.TempDir()
	script := filepath.Join(home, "run.sh")
	marker := "marker-" + filepath.Base(filepath.Dir(home)) + filepath.Base(home)
	if err := os.WriteFile(script, []byte("echo done; exec -a \"$1\" sleep 0.02"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context) (time.Duration, error) {
		cmd := command(ctx, t, home, "run", "--json", script, "--", marker)
		began := time.Now()
		out, err := cmd.Output()
		if err == nil && !strings.Contains(string(out), `"ended":"ok"`) {
			t.Errorf("it printed %s", out)
		}
		return time.Since(began), err
	}
	usual, err := run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	acknowledged, rounds := 1, hosttest.Long(15, 200)
	for range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(usual*5/4))
		if _, err := run(ctx); err == nil {
			acknowledged++
		}
		cancel()
	}
	t.Logf("%d of %d runs were acknowledged", acknowledged, rounds)
	killed, kill := context.WithCancel(t.Context())
	slow := command(killed, t, home, "run", "-c", "echo begun; sleep 1000", "--language", "shell")
	begun, err := slow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := begun.Read(make([]byte, 1)); err != nil {
		t.Errorf("a run that is killed while its program runs: %v", err)
	}
	kill()
	slow.Wait()

	log, err := audit.Open(t.Context(), filepath.Join(home, "state/sandboxmcp/sandboxmcp.db"))
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
	// The next run sweeps up what the killed ones could not, and writes what they owe to the log.
	dead := leaveRuntimeFiles(t, home)
	if _, err := run(t.Context()); err != nil {
		t.Errorf("a run after the kills: %v", err)
	}
	hosttest.Until(t, "no process is left", func() bool { return len(commandLines(marker)) == 0 })
	if left := leftovers(t, home); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	for _, path := range dead {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	started, ends := map[string]bool{}, map[string]string{}
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		switch row.Kind {
		case "execution.started":
			started[row.Run] = true
		case "execution.completed", "execution.failed", "execution.lost":
			ends[row.Run] += row.Kind
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for id := range started {
		if end := ends[id]; strings.Count(end, "execution.") != 1 {
			t.Errorf("run %s has the end %q", id, end)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(home, "state/sandboxmcp/running")); err != nil || len(entries) > 0 {
		t.Errorf("journals are left: %v, %v", entries, err)
	}
}

// leaveRuntimeFiles makes what killed servers leave in the runtime directory, a socket and the directory of a container's run, and returns their paths.
func leaveRuntimeFiles(t *testing.T, home string) []string {
	t.Helper()
	state := filepath.Join(home, "state/sandboxmcp")
	t.Setenv("XDG_RUNTIME_DIR", "") // as for the program
	dirs, err := container.RunDirs(state)
	if err != nil {
		t.Fatal(err)
	}
	run, sockets := filepath.Join(dirs[0], "01ARZ3NDEKTSV4RRFFQ69G5FAV"), control.Dir("", state)
	for _, dir := range []string{run, sockets} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(sockets) // the path of a socket is short
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "99999999.sock", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	return []string{run, filepath.Join(sockets, "99999999.sock")}
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

// leftovers lists what runs of a home leave on the host if nobody cleans up: mounts, and temporary files.
func leftovers(t *testing.T, home string) []string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(home, "tmp/*"))
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, home) {
			left = append(left, line)
		}
	}
	return left
}
