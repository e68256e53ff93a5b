package enginecheck_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// testProgram returns the path of the binary for PID 1 of containers and for commands that tests kill: the test binary, or
// the command itself if the test binary is linked dynamically, as with a C compiler on the PATH.
func testProgram(t testing.TB) string {
	t.Helper()
	file, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

var buildProgram = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := elf.Open(self)
	if err != nil {
		return "", fmt.Errorf("look at the test binary: %w", err)
	}
	defer f.Close()
	if !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return self, nil
	}
	dir, err := os.MkdirTemp("", "program") // removed with all temporary files
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "sandboxmcp")
	build := exec.Command("go", "build", "-o", file, "../sandboxmcp")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sandboxmcp: %w: %s", err, out)
	}
	return file, os.Chmod(dir, 0o755)
})
