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

// programs is a folder for what is built.
var programs = filepath.Join(os.TempDir(), fmt.Sprintf("egresstest-%d-program", os.Getpid()))

// program builds sandboxmcp, once for all tests.
var program = sync.OnceValues(func() (file string, err error) {
	if err := os.Mkdir(programs, 0o755); err != nil {
		return "", err
	}
	file = filepath.Join(programs, "sandboxmcp")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "../../cli/sandboxmcp")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // containers need it to be linked statically
	if out, err := build.CombinedOutput(); err != nil {
		return file, fmt.Errorf("build sandboxmcp: %w: %s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	sweep()
	code := enginetest.Main(m)
	os.RemoveAll(programs)
	os.Exit(code)
}

// sweep removes what tests that were killed have left: each name has the process's number.
func sweep() {
	for pattern, remove := range map[string]func(path string) error{
		filepath.Join(os.TempDir(), "egresstest-*-*"): os.RemoveAll,
		"/run/netns/sandboxmcp-*-*":                   func(path string) error { return exec.Command("ip", "netns", "delete", filepath.Base(path)).Run() },
	} {
		left, _ := filepath.Glob(pattern)
		for _, path := range left {
			for _, part := range strings.Split(filepath.Base(path), "-") {
				if pid, err := strconv.Atoi(part); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
					remove(path)
				}
			}
		}
	}
}
