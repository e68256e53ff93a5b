package enginetest

import (
	"debug/elf"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
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
		backendtest.Missing(t, "go", "this test binary is not static, and another can't be built: "+err.Error()+" "+string(out))
	}
	return path
}

// Required is what backendtest must not skip in our images, where everything is required: they have no
// compiler.
func Required() string {
	required := os.Getenv("SANDBOXMCP_TEST_REQUIRE")
	if slices.Contains(strings.Split(required, ","), "all") {
		return "python,node,shell,numpy,git,npm,script_command"
	}
	return required
}
