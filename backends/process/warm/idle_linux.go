package warm

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

// idleProcess is a contained interpreter that waits for its program.
//
// Python waits in a sitecustomize.py that removes itself, and reads its assignment from descriptor 3: see
// assignmentBytes. Node waits without any help: before it reads its program, it opens the package.json beside it,
// and finds a FIFO, on which open(2) blocks. When the FIFO is gone and the call restarts, Node finds the real file
// or none. Nothing of Node's own is changed, but it reads its arguments and variables earlier, so that they can't
// be added to. Bash waits without any help, too: before it opens its script, it reads BASH_ENV, a pipe that
// delivers the assignment, to its end.
type idleProcess struct {
	key         poolKey            // of its bucket in the pool
	program     *backends.Command  // of the caller that has leased it
	interpreter *process.Program   // nil if only the sandbox is idle
	cold        string             // why not even that: then all other fields are zero
	host        int                // its PID in the server's namespace
	process     *os.File           // its pidfd: PIDs are reused
	channel     io.ReadWriteCloser // delivers Python's or bash's assignment
	fifo        string             // on which Node waits
	placeholder os.FileInfo        // an empty file in place of Node's program
	ended       func()             // called once if the process ends while it is in the pool; guarded by the sandbox's mu
}

// sandbox is package process's sandbox with an optional idle interpreter.
type sandbox struct {
	*process.Sandbox
	ram    int64             // RAM limit in bytes
	inside bool              // process.Config.Inside
	zygote *process.Template // that forked its PID 1; nil if none
	missed func(language string, ram int64, why string)

	mu   sync.Mutex
	idle *idleProcess // waits for the first command
}

// setFifo puts the FIFO that Node will open into the workspace.
func (s *sandbox) setFifo(k *idleProcess, script string) error {
	if err := s.Files().Put(script, 0o600, strings.NewReader("")); err != nil {
		return err
	}
	var err error
	if k.placeholder, err = s.Workspace().Lstat(script); err != nil {
		return err
	}
	k.fifo = "package.json"
	dir, err := s.Workspace().Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mkfifoat(int(dir.Fd()), k.fifo, 0o600); err != nil {
		return fmt.Errorf("make a fifo: %w", err)
	}
	if uid := s.UID(); uid != 0 {
		return s.Workspace().Lchown(k.fifo, uid, uid)
	}
	return nil
}

// removeFifo removes the FIFO, unless another file has already replaced it.
func (s *sandbox) removeFifo(k *idleProcess) {
	if info, err := s.Workspace().Lstat(k.fifo); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		s.Workspace().Remove(k.fifo)
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

// close closes the server's descriptors of the process, which continues.
func (k *idleProcess) close() {
	if k.process != nil {
		k.process.Close()
	}
	if k.channel != nil {
		k.channel.Close()
	}
	if k.interpreter != nil {
		k.interpreter.Close()
	}
}

// closeIdle closes an idle process that was never leased.
func (s *sandbox) closeIdle() {
	if k := s.takeIdle(); k != nil {
		k.close()
	}
}

// pid returns the interpreter's PID inside, 0 if only the sandbox is idle.
func (k *idleProcess) pid() int32 {
	if k.interpreter == nil {
		return 0
	}
	return k.interpreter.PID
}

// Lease implements [pool.Item].
func (s *sandbox) Lease() bool {
	s.mu.Lock()
	s.idle.ended = nil
	over := s.HasEnded(s.idle.pid())
	s.mu.Unlock()
	return !over && s.Current()
}

// NotifyEnd implements [pool.Item]: the interpreter, or the whole sandbox, may end while idle.
func (s *sandbox) NotifyEnd(ended func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle.ended = ended
	if s.HasEnded(s.idle.pid()) {
		go s.idleEnded(0)
	}
}

// idleEnded notifies the pool that an idle interpreter has ended; pid 0 is the whole sandbox.
func (s *sandbox) idleEnded(pid int32) {
	s.mu.Lock()
	k := s.idle
	if k == nil || k.ended == nil || pid != 0 && pid != k.pid() {
		s.mu.Unlock()
		return
	}
	ended := k.ended
	k.ended = nil
	s.mu.Unlock()
	ended()
}

// Memory implements [pool.Item]. An ordinary user can't read PID 1's memory.
func (s *sandbox) Memory() int64 {
	var sum int64
	for _, pid := range []int{s.PID(), s.idle.host} {
		text, _ := procfs.Read(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		sum += procfs.KiB(procfs.StatusField(text, "Pss"))
	}
	return sum
}
