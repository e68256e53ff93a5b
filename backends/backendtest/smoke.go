//go:build linux

package backendtest

import (
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

const smoke = "Smoke"

// testSmoke runs one case of each of the other groups.
func testSmoke(t *testing.T, b *bench) {
	t.Run("leftovers", func(t *testing.T) { // first, while the other backends are idle
		t.Setenv("TMPDIR", t.TempDir())
		b.openOneTimeFiles(t)
		b.runScenarios(t, slices.DeleteFunc(scenarios(), func(w scenario) bool { return w.name != "timeout" }))
	})
	t.Run("layers", func(t *testing.T) { testLayers(t, b) })
	t.Run("calls", func(t *testing.T) {
		b.needLayer(t, backends.LayerSeccomp)
		b.checkAttacks(t, "kernel.py", nil)
	})
	t.Run("files of the host", func(t *testing.T) {
		b.needLayer(t, backends.LayerMount)
		target, check := filesTarget(t)
		target["mounted"] = b.o.Mounted
		b.checkAttacks(t, "files.py", target)
		check(t)
	})
	t.Run("ends", func(t *testing.T) {
		s := b.session(t, "shell")
		if o := mustExec(t, s, "bash", "-c", "echo out; echo err >&2; exit 7"); o.Ended != backends.EndedExit || o.ExitCode != 7 ||
			o.Stdout != "out\n" || o.Stderr != "err\n" {
			t.Errorf("exit 7: %+v", o)
		}
		if o := mustExec(t, s, "bash", "-c", "kill -9 $$; sleep 5"); o.Ended != backends.EndedSignal || o.Signal != "SIGKILL" {
			t.Errorf("kill -9: %+v", o)
		}
	})
	t.Run("files", func(t *testing.T) {
		s := b.session(t, "shell")
		putText(t, s, "a/in", "given")
		mustExec(t, s, "bash", "-c", "cat a/in >out").mustSucceed(t)
		if text, err := readContent(t, filesOf(t, s)["out"]); err != nil || text != "given" {
			t.Errorf("got %q, %v", text, err)
		}
	})
	t.Run("memory", func(t *testing.T) {
		limits := b.spec("").Limits
		limits.RAM = 96 << 20
		if o, made := b.runBomb(t, limits, "anonymous", 400<<20); o.Ended != backends.EndedOOM || made.Made >= 400<<20 {
			t.Errorf("ended %s, %d MB", o.Ended, made.Made>>20)
		}
	})
}
