package process

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
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
			for !gone(mother) { // until then what it bore is dying
				time.Sleep(time.Millisecond)
			}
		}
		alive(t, b, spec)
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
	for !gone(old) { // its last child is gone, or going
		time.Sleep(time.Millisecond)
	}
}

// gone says whether a zygote has ended.
func gone(z *pythonZygote) bool {
	z.birth.mu.Lock()
	defer z.birth.mu.Unlock()
	return z.pidfd == nil || over(z.pidfd)
}
