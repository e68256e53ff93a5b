package process

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// idleProcess is an interpreter that is contained already, and waits for its program.
//
// Python waits in a sitecustomize.py that removes itself, reading its assignment from descriptor 3: see assignmentBytes.
// Node waits without any help: it opens the package.json beside its program before it reads that, and finds a fifo, on
// which open(2) waits. When the fifo is gone and the call restarts, Node finds the real file or none. Nothing of Node's own
// is changed, but it reads its arguments and variables earlier, so that there can be no more of them. Bash waits without
// any help, too: it reads BASH_ENV, which is a pipe that delivers the assignment, to its end before it opens its script.
type idleProcess struct {
	key         poolKey            // of its bucket in the pool
	program     *backends.Command  // of the caller that has leased it
	launched                       // pid is 0 if only the sandbox is idle; if cold says why not even that, all else is zero
	host        int                // its number in the server's PID namespace
	process     *os.File           // its pidfd: numbers are reused
	channel     io.ReadWriteCloser // delivers Python's or bash's assignment
	fifo        string             // that Node waits on
	placeholder os.FileInfo        // an empty file in the place of Node's program
	ended       func()             // called once if the process ends while the pool has it; guarded by the sandbox's mu
}

// setFifo puts the fifo that Node will open into the workspace.
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

// removeFifo removes the fifo, unless another file has replaced it already.
func (s *sandbox) removeFifo(k *idleProcess) {
	if info, err := s.files.root.Lstat(k.fifo); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		s.files.root.Remove(k.fifo)
	}
}

// setIdle sets the sandbox's idle process.
func (s *sandbox) setIdle(k *idleProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = k
}

// takeIdle removes and returns the sandbox's idle process, if any.
func (s *sandbox) takeIdle() *idleProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.idle
	s.idle = nil
	return k
}

// close closes the server's descriptors of the process, which does not end it.
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

// Lease implements [pool.Item].
func (s *sandbox) Lease() bool {
	s.mu.Lock()
	s.idle.ended = nil
	over := s.idleOver()
	s.mu.Unlock()
	return !over && s.current()
}

// Watch implements [pool.Item]: the interpreter, or the whole sandbox, may end while idle.
func (s *sandbox) Watch(ended func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle.ended = ended
	if s.idleOver() {
		go s.idleEnded(0)
	}
}

// idleOver reports whether the interpreter or the sandbox has ended. The caller holds mu.
func (s *sandbox) idleOver() bool {
	select {
	case <-s.gone:
		return true
	default:
	}
	life := s.lives[s.idle.pid]
	return life != nil && len(life.exit) > 0
}

// idleEnded tells the pool that an idle interpreter has ended; pid 0 is the whole sandbox.
func (s *sandbox) idleEnded(pid int32) {
	s.mu.Lock()
	k := s.idle
	if k == nil || k.ended == nil || pid != 0 && pid != k.pid {
		s.mu.Unlock()
		return
	}
	ended := k.ended
	k.ended = nil
	s.mu.Unlock()
	ended()
}

// Memory implements [pool.Item]. PID 1's memory is not readable for an ordinary user.
func (s *sandbox) Memory() int64 {
	var sum int64
	for _, pid := range []int{s.pid, s.idle.host} {
		text, _ := readProc(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		sum += kib(statusField(text, "Pss"))
	}
	return sum
}
