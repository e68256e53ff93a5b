package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestZygoteBears sees that what stands ready for Python is borne by a zygote.
func TestZygoteBears(t *testing.T) {
	b := pooled(t)
	cmd := backends.Command{Args: []string{"python", "main.py"}}
	stock(t, b, announced("python", cmd))
	r, _ := recipeOf(announced("python", cmd))
	b.pool.mu.Lock()
	mother := b.pool.shelves[r].ready[0].mother()
	b.pool.mu.Unlock()
	if mother == nil {
		b.zygotes.mu.Lock()
		defer b.zygotes.mu.Unlock()
		t.Fatalf("no zygote bore it: %+v", b.zygotes.failed)
	}
	got := runProgram(t, b, announced("python", cmd), map[string]string{"main.py": "import sys, os\nprint(sys.argv, os.getpid(), os.getppid())"}, "")
	if got.out != "['main.py'] 2 1\n" || !got.Warm {
		t.Errorf("got %+v", got)
	}
}

// TestZygoteDies kills the zygote while what it bore stands ready, and while nothing does: programs run all the same.
func TestZygoteDies(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	for range 3 {
		stock(t, b, spec)
		// After a death it may have been started in the other way.
		if mother := standing(b, spec)[0].mother(); mother != nil {
			unix.PidfdSendSignal(int(mother.pidfd.Fd()), unix.SIGKILL, nil, 0)
			ends(t, mother) // until then what it bore is dying
		}
		alive(t, b, spec)
	}
}

// TestZygoteStops stops the zygote, which hangs then: who needs a fork of it gets none, and programs run all the same.
func TestZygoteStops(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	stock(t, b, spec)
	old := standing(b, spec)[0].mother()
	if old == nil {
		t.Fatal("no zygote bore it")
	}
	unix.PidfdSendSignal(int(old.pidfd.Fd()), unix.SIGSTOP, nil, 0)
	var all sync.WaitGroup
	for range 4 { // one finds what stands ready
		all.Go(func() { alive(t, b, spec) })
	}
	all.Wait()
	old.cloning.Lock()
	if !errors.Is(old.lost, os.ErrDeadlineExceeded) {
		t.Errorf("it was not waited for, or answered: %v", old.lost)
	}
	old.cloning.Unlock()
	ends(t, old) // its children are gone, or going
}

// TestNestUnanswered has a nest that did not answer in time be asked once more, when it would: the answer would be that to the first.
func TestNestUnanswered(t *testing.T) {
	b := pooled(t)
	stock(t, b, announced("python", readyPython))
	z := standing(b, announced("python", readyPython))[0].mother()
	if z == nil {
		t.Fatal("no zygote bore it")
	}
	unix.PidfdSendSignal(int(z.pidfd.Fd()), unix.SIGSTOP, nil, 0)
	z.patience = time.Millisecond
	if _, err := b.bearBy(t.Context(), z); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("it answered: %v", err)
	}
	unix.PidfdSendSignal(int(z.pidfd.Fd()), unix.SIGCONT, nil, 0)
	z.patience = time.Minute
	if child, err := b.bearBy(t.Context(), z); err == nil {
		child.remove()
		t.Error("it bore what was asked for before")
	}
}

// TestZygoteWears has a zygote be old: another takes its place, and what it bore stays of use.
func TestZygoteWears(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	stock(t, b, spec)
	old := standing(b, spec)[0].mother()
	old.mu.Lock()
	old.forks = mostForks
	old.mu.Unlock()
	if r := alive(t, b, spec); !r.Warm {
		t.Errorf("what an old zygote bore was not used: %s", r.Cold)
	}
	stock(t, b, spec)
	if now := standing(b, spec)[0].mother(); now == nil || now == old {
		t.Error("the old zygote was asked for more")
	}
	ends(t, old) // its last child is gone, or going
}

// gone says whether a zygote has ended.
func gone(z *pythonZygote) bool {
	z.birth.mu.Lock()
	defer z.birth.mu.Unlock()
	return z.pidfd == nil || over(z.pidfd)
}

func ends(t *testing.T, z *pythonZygote) {
	t.Helper()
	hosttest.Until(t, "the zygote has ended", func() bool { return gone(z) })
}

// anyZygote is one that stands ready, if one does.
func anyZygote(b *Backend) *pythonZygote {
	b.zygotes.mu.Lock()
	defer b.zygotes.mu.Unlock()
	for _, one := range b.zygotes.warm {
		return one
	}
	return nil
}

// TestZygoteDiesDuringStart kills the zygote at many moments of a Start that has a Python forked: no run fails.
func TestZygoteDiesDuringStart(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	r, _ := recipeOf(spec)
	python, err := b.runtime(t.Context(), "python")
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 12
	killed, took := 0, time.Duration(0)
	for round := range rounds + 2 {
		b.zygotes.mu.Lock()
		clear(b.zygotes.failed) // or none would be tried for a while
		b.zygotes.mu.Unlock()
		mother, err := b.zygotes.of(t.Context(), python, r.script)
		if err != nil {
			t.Fatal(err)
		}
		mother.busy.Add(-1)
		mother.leave()
		if round == 1 { // it will not have borne
			unix.PidfdSendSignal(int(mother.pidfd.Fd()), unix.SIGSTOP, nil, 0)
		}
		var s *sandbox
		done := make(chan struct{})
		begun := time.Now()
		go func() {
			defer close(done)
			s, err = b.startFresh(t.Context(), spec, "")
		}()
		switch round {
		case 0:
			<-done
			took = time.Since(begun)
		case 1:
			hosttest.Until(t, "it is asked to bear", func() bool { return mother.busy.Load() > 0 })
		default: // at one moment of a start after another
			time.Sleep(took * time.Duration(round-2) / rounds)
		}
		mother.end()
		<-done
		ends(t, mother)
		if err != nil {
			t.Errorf("round %d: %v", round, err)
			continue
		}
		if s.mother() == nil {
			killed++
		}
		s.Close()
	}
	if killed == 0 {
		t.Error("no zygote died before it had borne")
	}
}

// TestZygoteBounds asks for many scripts: few zygotes stay, and none that nobody asks for.
func TestZygoteBounds(t *testing.T) {
	b := newBackend(t, Config{Pool: Pool{Max: 8}})
	python, err := b.runtime(t.Context(), "python")
	if err != nil {
		t.Fatal(err)
	}
	var all []*pythonZygote
	for i := range mostZygotes + 2 {
		one, err := b.zygotes.of(t.Context(), python, fmt.Sprintf("main%d.py", i))
		if err != nil {
			t.Fatal(err)
		}
		one.busy.Add(-1)
		one.leave()
		all = append(all, one)
	}
	for i, one := range all {
		if given := i < len(all)-mostZygotes; gone(one) != given {
			t.Errorf("zygote %d of %d: given up: got %v", i, len(all), !given)
		}
	}
	if !b.zygotes.tidy(time.Hour) || gone(all[len(all)-1]) {
		t.Error("one was given up early")
	}
	if b.zygotes.tidy(0) {
		t.Error("some are left")
	}
	for i, one := range all {
		if !gone(one) {
			t.Errorf("zygote %d lives on", i)
		}
	}
	for i := range 2 * mostFailures {
		b.zygotes.fail(fmt.Sprint(i), errClosed)
	}
	if n := len(b.zygotes.failed); n > mostFailures {
		t.Errorf("%d failures are remembered", n)
	}
}

// TestStartsDoNotWaitForOthers has starts that take for ever: only who wants the same waits, and may give up.
func TestStartsDoNotWaitForOthers(t *testing.T) {
	b := newBackend(t, Config{Pool: Pool{Max: 4}})
	python, err := b.runtime(t.Context(), "python")
	if err != nil {
		t.Fatal(err)
	}
	other := python
	other.Prefixes = append([]string{"/nowhere"}, other.Prefixes...)
	b.zygotes.mu.Lock()
	stuck := b.zygotes.coming.begin(t.Context(), scriptKind(python, "stuck.py"))
	b.zygotes.mu.Unlock()
	b.nests.mu.Lock()
	b.nests.coming.begin(t.Context(), shows(other))
	b.nests.mu.Unlock()
	alive(t, b, announced("python", readyPython))
	if b.zygotes.ready(python, "stuck.py") {
		t.Error("what is being started is ready")
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := b.zygotes.of(short, python, "stuck.py"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who waits for a zygote got %v", err)
	}
	if _, err := b.nests.of(short, other); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who waits for a nest got %v", err)
	}
	go func() { // as the one who starts it would
		<-stuck.Done()
		b.zygotes.add(stuck, scriptKind(python, "stuck.py"), nil, stuck.Err())
	}()
	b.nests.add(t.Context(), shows(other), nil, errClosed)
	b.Close()
	if _, err := b.zygotes.of(t.Context(), python, "stuck.py"); err != errClosed {
		t.Errorf("after Close: %v", err)
	}
}
