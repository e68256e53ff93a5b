package enginetest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// InitBinary returns the value of container.Config.Binary with which this test binary is its own init in
// containers: "", or, if it needs libraries because it was built with cgo or the race detector, the path of a
// static build of the same package.
func InitBinary(t testing.TB) string {
	t.Helper()
	path, err := static()
	if err != nil {
		hosttest.SkipMissing(t, "go", "this test binary is not static, and another can't be built: "+err.Error())
	}
	return path
}

var static = sync.OnceValues(func() (string, error) {
	self, err := elf.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer self.Close()
	if !slices.ContainsFunc(self.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "init") // removed with the temporary directories
	if err != nil {
		return "", err
	}
	c := exec.Command("go", "test", "-c", "-o", dir+"/init", ".") // a test runs in its package's directory
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir + "/init", os.Chmod(dir, 0o755)
})

// has lists the features of our images: all that backendtest needs, except a compiler.
var has = []string{"python", "node", "shell", "numpy", "git", "npm", "script_command"}
