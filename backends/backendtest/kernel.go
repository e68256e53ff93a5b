package backendtest

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// testKernel: calls, the kernel's files, and privilege escalation.
func testKernel(t *testing.T, b *bench) {
	b.layer(t, backends.LayerSeccomp)
	t.Run("calls", func(t *testing.T) { b.attack(t, "kernel.py", nil) })
	t.Run("files", func(t *testing.T) { b.attack(t, "kernelfiles.py", nil) })
	t.Run("privileges", func(t *testing.T) { b.attack(t, "privileges.py", nil) })
	t.Run("threads although clone3 is refused", func(t *testing.T) {
		b.python(t, "import threading\nt = [threading.Thread(target=print, args=(i,)) for i in range(4)]\n[x.start() for x in t]; [x.join() for x in t]").ok(t)
	})
}
