package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// idleProcess is a program's process that is contained already, and waits for its program.
//
// Python waits in a sitecustomize.py that removes itself, reading its descriptor 3: that is the claim,
// see claimBytes. Node waits without any help: it opens the package.json beside its program before it
// reads that, and finds a fifo, on which open(2) waits. When the fifo is gone and the call begins
// again, Node finds what is there by then. Nothing of Node's own is changed, but it reads its arguments
// before it comes that far, so that there can be no more of them. Bash waits without any help, too: it reads BASH_ENV, which is
// a pipe, to its end before it opens its script, and the claim is what it finds there.
type idleProcess struct {
	key            poolKey           // that it stands ready by
	program        *backends.Command // for which it has been taken
	cold           string            // why nothing waits, for the first command; all else is zero then
	pid            int32             // inside; 0 where only the sandbox stands ready
	host           int               // the same, as we see it,
	process        *os.File          // and for certain: numbers come again
	contained      backends.Containment
	pipes          *pipes
	channel        io.ReadWriteCloser // python's or bash's claim goes there
	fifo           string             // that node waits on
	placeholder    os.FileInfo        // an empty file in the place of node's program
	rewritesItself bool               // nothing has to be done to it from here: it puts on the claim by itself
	left           chan struct{}      // closed when nobody needs to wait for its end any more
	leaving        sync.Once
	watching       sync.WaitGroup // until then somebody waits for its end
	dead           bool           // which came; set before watching is done
}

// setFifo puts what node will wait on into the workspace.
func (s *sandbox) setFifo(k *idleProcess, script string) error {
	if err := s.files.Put(script, 0o600, strings.NewReader("")); err != nil {
		return err
	}
	var err error
	if k.placeholder, err = s.files.root.Lstat(script); err != nil {
		return err
	}
	k.fifo = "package.json"
	dir, err := s.files.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mkfifoat(int(dir.Fd()), k.fifo, 0o600); err != nil {
		return fmt.Errorf("make a fifo: %w", err)
	}
	if s.uid != 0 {
		return s.files.root.Lchown(k.fifo, s.uid, s.uid)
	}
	return nil
}

// removeFifo takes the fifo away, unless something has taken its place already.
func (s *sandbox) removeFifo(k *idleProcess) {
	if info, err := s.files.root.Lstat(k.fifo); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		s.files.root.Remove(k.fifo)
	}
}

// leave ends the waiting for the process's end, and says whether it still runs.
func (k *idleProcess) leave() bool {
	k.leaving.Do(func() { close(k.left) })
	k.watching.Wait()
	return !k.dead
}

// dismiss lets go of what stands ready, if that is still so.
func (s *sandbox) dismiss() {
	s.mu.Lock()
	k := s.idle
	s.idle = nil
	s.mu.Unlock()
	if k != nil && k.cold == "" {
		k.leave()
		k.close()
	}
}

func (k *idleProcess) close() {
	if k.process != nil {
		k.process.Close()
	}
	if k.channel != nil {
		k.channel.Close()
	}
	if k.pipes != nil {
		k.pipes.started()
		k.pipes.close()
	}
}

// Lease implements [warm.Item].
func (s *sandbox) Lease() bool { return s.idle.leave() && s.current() }

// Watch implements [warm.Item]: the interpreter, or all of the sandbox, may end.
func (s *sandbox) Watch() (ended func() bool) {
	k := s.idle
	var exit <-chan launch.Message
	if k.pid != 0 {
		exit = s.life(k.pid).exit
	}
	k.watching.Add(1)
	return func() bool {
		defer k.watching.Done()
		select {
		case <-exit:
		case <-s.gone:
		case <-k.left:
			return false
		}
		k.dead = true
		return true
	}
}

// Memory implements [warm.Item]. PID 1's memory is closed to an ordinary user.
func (s *sandbox) Memory() int64 {
	var sum int64
	for _, pid := range []int{s.pid, s.idle.host} {
		text, _ := readProc(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		sum += kib(statusField(text, "Pss"))
	}
	return sum
}

// errElsewhere is for an interpreter that does not wait where it should.
var errElsewhere = errors.New("it does not wait where it should")
