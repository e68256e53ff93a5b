//go:build linux

package backendtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// noneReady is the miss reason of a program whose kind can be idle.
const noneReady = "no idle sandbox"

// startAnnounced starts a sandbox for an announced program. With Options.Warm it waits for an idle sandbox, unless
// the backend reports that there will be none.
func (b *bench) startAnnounced(t testing.TB, spec backends.Spec, cmd backends.Command) backends.Sandbox {
	t.Helper()
	if !b.o.Warm {
		return b.start(t, spec)
	}
	spec.Program = &cmd
	b.warming.Lock() // otherwise one caller leases another's sandbox
	defer b.warming.Unlock()
	var s backends.Sandbox
	hosttest.Until(t, fmt.Sprintf("a sandbox stands ready for %.100q", cmd.Args), func() bool {
		before := b.poolOf(spec)
		s = b.openSandbox(t, spec)
		after := b.poolOf(spec)
		if after.Hits > before.Hits {
			return true
		}
		for why, n := range after.Cold {
			if n > before.Cold[why] && !strings.HasPrefix(why, noneReady) {
				return true
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		return false
	})
	return s
}

// poolOf returns the backend's counters of spec's kind.
func (b *bench) poolOf(spec backends.Spec) backends.Pool {
	for _, p := range b.backend.Pools() {
		if p.Language == spec.Language && p.RAM == spec.Limits.WithDefaults().RAM {
			return p
		}
	}
	return backends.Pool{}
}

// startInline starts a sandbox and returns the command that runs source text: as an argument, or as a file if idle
// sandboxes need one.
func (b *bench) startInline(t testing.TB, spec backends.Spec, source string, args ...string) (backends.Sandbox, backends.Command) {
	t.Helper()
	c := map[string]struct{ program, flag, file string }{
		"python": {"python", "-c", "main.py"}, "node": {"node", "-e", "main.js"}, "shell": {"bash", "-c", "main.sh"},
	}[spec.Language]
	if !b.o.Warm {
		if spec.Language == "shell" {
			args = append([]string{"bash"}, args...)
		}
		return b.start(t, spec), backends.Command{Args: append([]string{c.program, c.flag, source}, args...)}
	}
	cmd := backends.Command{Args: append([]string{c.program, c.file}, args...)}
	s := b.startAnnounced(t, spec, cmd)
	putText(t, s, c.file, source)
	return s, cmd
}

// run runs source text in a fresh sandbox.
func (b *bench) run(t testing.TB, spec backends.Spec, source string, args ...string) outcome {
	t.Helper()
	s, cmd := b.startInline(t, spec, source, args...)
	return b.execAnnounced(t, s, cmd)
}

// execAnnounced executes the program of startAnnounced in its sandbox.
func (b *bench) execAnnounced(t testing.TB, s backends.Sandbox, cmd backends.Command) outcome {
	t.Helper()
	o := mustExec(t, s, cmd.Args...)
	if b.o.Warm && o.Warm == (o.Cold != "") {
		t.Errorf("warm: %v, cold: %q", o.Warm, o.Cold)
	}
	return o
}
