package cli

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

func TestMain(m *testing.M) {
	switch os.Getenv("SANDBOXMCP_TEST_ROLE") {
	case "soak":
		serveSoak()
	case "serve":
		os.Exit(serveMeasured())
	}
	os.Exit(m.Run())
}

// serveSoak is a server that runs programs, 16 at a time, with a warm pool, and prints the ids of returned results to
// stdout, until it is killed.
func serveSoak() {
	fmt.Println("begins")
	cfg, err := config.Load(config.Options{Env: os.Environ(), Flags: map[string]string{"max_concurrent": "16"}})
	if err != nil {
		panic(err)
	}
	parts, err := wiring.New(context.Background(), cfg, wiring.Purpose{Serve: true})
	if err != nil {
		panic(err)
	}
	programs := []run.Request{
		{Language: "shell", Name: "soak.sh", Code: []byte("echo $RANDOM >file; sleep 0.01 & echo out")},
		{Language: "python", Name: "soak.py", Code: []byte("import os, time\nif os.fork() == 0: time.sleep(0.01)\nprint('out')")},
	}
	for i := range 16 {
		go func() {
			for {
				_, r, err := pipeline.Do(context.Background(), parts.Pipeline, programs[i%2])
				if err != nil || r.Ended != "ok" {
					fmt.Println("failed", r.ID, r.Ended, err)
					continue
				}
				fmt.Println("ok", r.ID)
			}
		}()
	}
	select {}
}

// TestSoak runs programs 16 at a time while the server is killed with SIGKILL now and then. Nothing may be left on the
// host, and the log must be intact and contain every run whose result was returned.
func TestSoak(t *testing.T) {
	becomeSubreaper(t)
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	var done []string
	for servers, runs := 1, hosttest.Rounds(150, 10_000); len(done) < runs; servers++ {
		done = append(done, serveUntilKilled(t, state, rand.IntN(40))...)
		if t.Failed() {
			t.FailNow()
		}
		t.Logf("%d runs by %d servers, each killed", len(done), servers)
	}
	hosttest.Until(t, "no process is left", func() bool { return len(reapOrphans()) == 0 })
	if left := mountsIn(t, state); len(left) > 0 {
		t.Errorf("mounts left: %v", left)
	}
	log, err := audit.Open(t.Context(), filepath.Join(state, "sandboxmcp", "sandboxmcp.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if report, err := log.Verify(t.Context(), audit.VerifyOptions{}); err != nil || report.Bad != nil {
		t.Errorf("audit: %+v %v", report.Bad, err)
	}
	ended := map[string]bool{}
	for row, err := range log.Rows(t.Context(), audit.Filter{Kinds: []string{"execution.completed"}}) {
		if err != nil {
			t.Fatal(err)
		}
		ended[row.Run] = true
	}
	for _, id := range done {
		if !ended[id] {
			t.Errorf("run %s was handed out and has no row", id)
		}
	}
}

// serveUntilKilled returns the runs whose results one server returned before it was killed: at its start for after 0,
// or after that many results.
func serveUntilKilled(t *testing.T, state string, after int) (done []string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "SANDBOXMCP_TEST_ROLE=soak", "XDG_STATE_HOME="+state, "TMPDIR="+filepath.Join(state, "tmp"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "ok "); ok {
			done = append(done, id)
		} else if lines.Text() != "begins" {
			t.Errorf("server: %s", lines.Text())
			break
		}
		if len(done) == after {
			cmd.Process.Kill()
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	return done
}

// mountsIn lists the mounts in a directory.
func mountsIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, dir) {
			all = append(all, line)
		}
	}
	return all
}
