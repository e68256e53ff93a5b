package podman

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestServiceEnds starts a service of our own, and checks that nothing of it is left after Close, nor after this
// process is killed.
func TestServiceEnds(t *testing.T) {
	dir := newStore(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	e := engineIn(t, dir)
	pid := e.conn.service.process.Pid
	if left, _ := filepath.Glob(filepath.Join(dir, "sandboxmcp-*")); len(left) > 0 {
		t.Errorf("in the file system: %v", left)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("the service runs on")
	}
	if _, err := e.Info(t.Context()); err == nil {
		t.Error("a closed engine answers")
	}

	cmd := exec.Command(os.Args[0], "-test.run=^TestServiceParent$", "-test.v")
	cmd.Env = append(os.Environ(), "PODMAN_TEST_PARENT="+dir)
	in, _ := cmd.StdinPipe() // the parent ends when its input does
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid = 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "service "); ok {
			fmt.Sscan(rest, &pid)
		}
	}
	if pid == 0 || syscall.Kill(pid, 0) != nil {
		t.Fatalf("no service was started: %d", pid)
	}
	cmd.Process.Kill()
	cmd.Wait()
	hosttest.Until(t, "the service has ended with its parent", func() bool { return syscall.Kill(pid, 0) != nil })
}

// TestServiceParent is the process that TestServiceEnds kills.
func TestServiceParent(t *testing.T) {
	dir := os.Getenv("PODMAN_TEST_PARENT")
	if dir == "" {
		t.Skip("only a part of TestServiceEnds")
	}
	e := engineIn(t, dir)
	fmt.Printf("service %d\n", e.conn.service.process.Pid)
	io.Copy(io.Discard, os.Stdin)
}

// TestNoService checks the error if a service can't be started.
func TestNoService(t *testing.T) {
	for _, service := range [][]string{{"false"}, {"/nowhere/podman"}} {
		if _, err := New(Config{Service: service}).Info(t.Context()); err == nil {
			t.Errorf("%v: no error", service)
		}
	}
}
