package egresstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// programs is a folder for what is built.
var programs = filepath.Join(os.TempDir(), fmt.Sprintf("egresstest-program-%d", os.Getpid()))

// program builds sandboxmcp, once for all tests.
var program = sync.OnceValues(func() (file string, err error) {
	if err := os.Mkdir(programs, 0o755); err != nil {
		return "", err
	}
	file = filepath.Join(programs, "sandboxmcp")
	if out, err := exec.Command("go", "build", "-o", file, "../../cli/sandboxmcp").CombinedOutput(); err != nil {
		return file, fmt.Errorf("build sandboxmcp: %w: %s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	code := enginetest.Main(m)
	os.RemoveAll(programs)
	os.Exit(code)
}
