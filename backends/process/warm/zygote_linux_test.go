package warm

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// TestZygoteForks checks that a zygote forks idle Pythons.
func TestZygoteForks(t *testing.T) {
	b := pooled(t)
	cmd := backends.Command{Args: []string{"python", "main.py"}}
	makeReady(t, b, announced("python", cmd))
	if s := idleSandboxes(b, announced("python", cmd))[0]; s.zygote == nil {
		_, _, err := b.spawnByZygote(t.Context(), s.Runtime(), "main.py")
		t.Fatalf("no zygote forked it: %v", err)
	}
	got := runProgram(t, b, announced("python", cmd), map[string]string{
		"main.py": "import sys, os\nprint(sys.argv, os.getpid(), os.getppid())"}, "")
	if got.out != "['main.py'] 2 1\n" || !got.Warm {
		t.Errorf("got %+v", got)
	}
}

// TestZygoteDies kills the zygote while it has an idle fork, and while it has none: programs run nevertheless.
func TestZygoteDies(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	b.zygotes.PauseFirst, b.zygotes.PauseMax = 0, 0 // otherwise no zygote would be started for a while
	for range 3 {
		makeReady(t, b, spec)
		z := idleSandboxes(b, spec)[0].zygote
		unix.Kill(z.PID(), unix.SIGKILL)
		waitEnded(t, z) // until then its fork is dying
		checkWorks(t, b, spec)
	}
}

// TestZygoteStops stops the zygote: callers get no fork of it, and programs run nevertheless.
func TestZygoteStops(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	makeReady(t, b, spec)
	old := idleSandboxes(b, spec)[0].zygote
	if old == nil {
		t.Fatal("no zygote forked it")
	}
	unix.Kill(old.PID(), unix.SIGSTOP)
	var all sync.WaitGroup
	for range 4 { // one uses the idle sandbox
		all.Go(func() { checkWorks(t, b, spec) })
	}
	all.Wait()
	waitEnded(t, old) // its children have ended, or are ending
}

// TestTemplateUnanswered sends a request to a template that did not answer the one before in time: its next answer
// would belong to the first.
func TestTemplateUnanswered(t *testing.T) {
	b := pooled(t)
	makeReady(t, b, announced("python", readyPython))
	z := idleSandboxes(b, announced("python", readyPython))[0].zygote
	if z == nil {
		t.Fatal("no zygote forked it")
	}
	unix.Kill(z.PID(), unix.SIGSTOP)
	if _, err := b.SpawnByTemplate(t.Context(), acquireZygote(t, b)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("it answered: %v", err)
	}
	unix.Kill(z.PID(), unix.SIGCONT)
	if child, err := b.SpawnByTemplate(t.Context(), acquireZygote(t, b)); err == nil {
		child.Remove()
		t.Error("it forked for the request before")
	}
}

// TestZygoteWears ages a zygote: another replaces it, and its forks stay usable.
func TestZygoteWears(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	makeReady(t, b, spec)
	old := idleSandboxes(b, spec)[0].zygote
	b.zygotes.Uses = 1 // the number it has already forked
	if r := checkWorks(t, b, spec); !r.Warm {
		t.Errorf("the fork of an old zygote was not used: %s", r.Cold)
	}
	makeReady(t, b, spec)
	if now := idleSandboxes(b, spec)[0].zygote; now == nil || now == old {
		t.Error("the old zygote was asked for more")
	}
	waitEnded(t, old) // its last child has ended, or is ending
}

// gone reports whether a zygote has ended.
func gone(z *process.Template) bool { return hosttest.HasEnded(z.PID()) }

func waitEnded(t *testing.T, z *process.Template) {
	t.Helper()
	hosttest.Until(t, "the zygote has ended", func() bool { return gone(z) })
}

// acquireZygote acquires the zygote for main.py for one more fork.
func acquireZygote(t *testing.T, b *Backend) *process.Template {
	t.Helper()
	python := interpreter(t, "python")
	z, err := b.zygotes.Acquire(t.Context(), scriptKind(python, "main.py"), func(ctx context.Context) (*process.Template, error) {
		return b.startZygote(ctx, python, "main.py")
	})
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestZygoteDiesDuringStart kills the zygote at many moments of a Start that forks a Python: no run fails.
func TestZygoteDiesDuringStart(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	r, _ := poolKeyOf(spec)
	b.zygotes.PauseFirst, b.zygotes.PauseMax = 0, 0 // otherwise no zygote would be tried for a while
	const rounds = 12
	killed, took := 0, time.Duration(0)
	for round := range rounds + 2 {
		z := acquireZygote(t, b)
		z.Spawned()
		z.Release()
		if round == 1 { // it can't have forked yet
			unix.Kill(z.PID(), unix.SIGSTOP)
		}
		var s *sandbox
		var err error
		done := make(chan struct{})
		begun := time.Now()
		go func() {
			defer close(done)
			s, err = b.startFresh(t.Context(), spec, r, "")
		}()
		switch round {
		case 0:
			<-done
			took = time.Since(begun)
		case 1:
			hosttest.Until(t, "it is asked to fork", func() bool { return z.Busy() })
		default: // at increasing times after a start
			time.Sleep(took * time.Duration(round-2) / rounds)
		}
		unix.Kill(z.PID(), unix.SIGKILL)
		<-done
		waitEnded(t, z)
		if err != nil {
			t.Errorf("round %d: %v", round, err)
			continue
		}
		if s.zygote == nil {
			killed++
		}
		s.Close()
	}
	if killed == 0 {
		t.Error("no zygote died before it had forked")
	}
}
