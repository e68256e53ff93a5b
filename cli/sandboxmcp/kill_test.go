package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// TestKilledAtAnyMoment kills the program while it runs scripts. Afterwards the log is intact, each returned result has
// its row, each run has one end, and no process, mount, cgroup or file of a run is left.
func TestKilledAtAnyMoment(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	home := t.TempDir()
	script := filepath.Join(home, "run.sh")
	marker := "marker-" + filepath.Base(filepath.Dir(home)) + filepath.Base(home)
	if err := os.WriteFile(script, []byte("mkdir d; for i in $(seq 20); do echo $i >d/$i; done; echo done; exec -a \"$1\" sleep 0.02"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, count := filepath.Join(home, "out"), 0
	run := func(ctx context.Context) (time.Duration, error) {
		count++
		cmd := command(ctx, t, home, "run", "--json", "--artifacts", filepath.Join(out, strconv.Itoa(count)), script, "--", marker)
		began := time.Now()
		text, err := cmd.Output()
		if err == nil && !strings.Contains(string(text), `"ended":"ok"`) {
			t.Errorf("it printed %s", text)
		}
		return time.Since(began), err
	}
	usual, err := run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	acknowledged, rounds := 1, hosttest.Rounds(15, 200)
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
	// The next command that writes to the log adds the rows that killed ones owe, whichever command it is, and the next
	// run removes their leftovers.
	dead := leaveRuntimeFiles(t, home)
	if out, err := command(t.Context(), t, home, "token", "create", "next", "--namespace", "default").CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	wantEnds(t, log)
	wantSigned(t, home, out)
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
	wantEnds(t, log)
	entries, err := os.ReadDir(filepath.Join(home, "state/sandboxmcp/sandboxmcp.db-running"))
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".new-") }) // removed when a minute old
	if err != nil || len(entries) > 0 {
		t.Errorf("journals are left: %v, %v", entries, err)
	}
}

// wantEnds checks that each started run in a log has one end.
func wantEnds(t *testing.T, log *audit.Log) {
	t.Helper()
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
}

// wantSigned checks that the artifact directories of killed runs contain only files that their receipts list, and
// nothing incomplete.
func wantSigned(t *testing.T, home, out string) {
	t.Helper()
	complete := 0
	err := filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		top, _, _ := strings.Cut(strings.TrimPrefix(path, out+"/"), "/")
		receipt, err := os.ReadFile(filepath.Join(out, top, "receipt.intoto.json"))
		if err != nil || strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is there: %v", path, err)
			return nil
		}
		switch e.Name() {
		case "receipt.intoto.json":
		case "SHA256SUMS":
			complete++
			if out, err := command(t.Context(), t, home, "verify", "--receipt", filepath.Join(out, top, "receipt.intoto.json")).CombinedOutput(); err != nil {
				t.Errorf("%s: %v, %s", path, err, out)
			}
		default:
			var envelope signer.Envelope
			content, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(receipt, &envelope)
			}
			if sum := fmt.Sprintf("%x", sha256.Sum256(content)); err != nil || !strings.Contains(string(envelope.Payload), sum) {
				t.Errorf("the receipt does not vouch for %s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || complete == 0 {
		t.Errorf("%d directories are complete: %v", complete, err)
	}
}

// leaveRuntimeFiles creates the leftovers of killed servers in the runtime directory, a socket and the directory of a
// container's run, and returns their paths.
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
	t.Chdir(sockets) // the path of a socket must be short
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "99999999.sock", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	return []string{run, filepath.Join(sockets, "99999999.sock")}
}

// commandLines returns the command lines of all processes that contain text.
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

// leftovers lists the mounts and temporary files that runs of a home leave without cleanup.
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
