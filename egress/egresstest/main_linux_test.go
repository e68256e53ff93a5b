package egresstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// programs is a directory for compiled programs.
var programs = filepath.Join(os.TempDir(), fmt.Sprintf("egresstest-program-%d", os.Getpid()))

// program builds sandboxmcp, once for all tests.
var program = sync.OnceValues(func() (file string, err error) {
	sweep()
	if err := os.Mkdir(programs, 0o755); err != nil {
		return "", err
	}
	file = filepath.Join(programs, "sandboxmcp")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "../../cli/sandboxmcp")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // containers need a static binary
	if out, err := build.CombinedOutput(); err != nil {
		return file, fmt.Errorf("build sandboxmcp: %w: %s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	code := enginetest.Main(m)
	os.RemoveAll(programs)
	os.Exit(code)
}

// sweep removes the networks of killed tests: their names end with the process's PID.
func sweep() {
	left, _ := filepath.Glob("/run/netns/sandboxmcp-*-*")
	for _, path := range left {
		name := filepath.Base(path)
		pid, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			exec.Command("ip", "netns", "delete", name).Run()
		}
	}
}
