package cli

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

func TestMain(m *testing.M) {
	switch os.Getenv("SANDBOXMCP_TEST_ROLE") {
	case "soak":
		soak()
	case "serve":
		os.Exit(serveMeasured())
	}
	os.Exit(m.Run())
}

// soak is a server that runs programs, 16 at a time, with others that stand ready, and tells on stdout
// which results it has handed out, until it is killed.
func soak() {
	cfg, err := config.Load(config.Options{Env: os.Environ(), Flags: map[string]string{"max_concurrent": "16"}})
	if err != nil {
		panic(err)
	}
	parts, err := wire(context.Background(), cfg, purpose{serve: true})
	if err != nil {
		panic(err)
	}
	programs := []pipeline.Request{
		{Language: "shell", Name: "soak.sh", Code: []byte("echo $RANDOM >file; sleep 0.01 & echo out")},
		{Language: "python", Name: "soak.py", Code: []byte("import os, time\nif os.fork() == 0: time.sleep(0.01)\nprint('out')")},
	}
	for i := range 16 {
		go func() {
			for {
				r, err := parts.pipeline.Do(context.Background(), programs[i%2])
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

// TestSoak runs programs 16 at a time while the server is killed with SIGKILL now and then. Nothing
// may be left on the host, and the log must be sound and hold every run whose result was handed
// out. SANDBOXMCP_TEST_SOAK says how many runs; 400 without it.
func TestSoak(t *testing.T) {
	wanted := soakRuns(t)
	inherit(t)
	state := t.TempDir()
	before := mounts(t)
	var done []string
	servers := 0
	for len(done) < wanted {
		done = append(done, serveUntilKilled(t, state, time.Duration(200+rand.IntN(2000))*time.Millisecond)...)
		if servers++; servers > wanted {
			t.Fatalf("%d servers made only %d runs", servers, len(done))
		}
	}
	t.Logf("%d runs by %d servers, each killed", len(done), servers)
	deadline := time.Now().Add(10 * time.Second)
	for left := orphans(); len(left) > 0; left = orphans() {
		if time.Now().After(deadline) {
			t.Fatalf("processes left: %v", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for left := newMounts(t, before); len(left) > 0; left = newMounts(t, before) {
		if time.Now().After(deadline) {
			t.Errorf("mounts left: %v", left)
			break
		}
		time.Sleep(100 * time.Millisecond) // other packages' tests mount things for a while
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

func soakRuns(t *testing.T) int {
	t.Helper()
	wanted := 400
	if s := os.Getenv("SANDBOXMCP_TEST_SOAK"); s != "" {
		var err error
		if wanted, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return wanted
}

// serveUntilKilled returns the runs that one server handed out before it was killed.
func serveUntilKilled(t *testing.T, state string, after time.Duration) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "SANDBOXMCP_TEST_ROLE=soak", "XDG_STATE_HOME="+state)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var kill sync.Once
	timer := time.AfterFunc(after, func() { kill.Do(func() { cmd.Process.Kill() }) })
	defer timer.Stop()
	var done []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "ok "); ok {
			done = append(done, id)
		} else {
			t.Errorf("server: %s", lines.Text())
		}
	}
	kill.Do(func() { cmd.Process.Kill() })
	cmd.Wait()
	return done
}

// mounts lists where something is mounted in this process's namespace.
func mounts(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		all = append(all, strings.Fields(line)[1])
	}
	return all
}

func newMounts(t *testing.T, before []string) []string {
	return slices.DeleteFunc(mounts(t), func(at string) bool { return slices.Contains(before, at) })
}
