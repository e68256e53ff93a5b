package enginetest

import (
	"debug/elf"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Binary returns what container.Config.Binary needs so that this test binary is its own init in
// containers: "", or, if it needs libraries because it was built with cgo or the race detector, one that
// is built of the same package without.
func Binary(t testing.TB) string {
	t.Helper()
	self, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if !slices.ContainsFunc(self.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return ""
	}
	path := t.TempDir() + "/init"
	c := exec.Command("go", "test", "-c", "-o", path, ".") // a test runs in its package's folder
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		hosttest.Missing(t, "go", "this test binary is not static, and another can't be built: "+err.Error()+" "+string(out))
	}
	return path
}

// has is what our images hold: all that backendtest asks for, but no compiler.
var has = []string{"python", "node", "shell", "numpy", "git", "npm", "script_command"}
