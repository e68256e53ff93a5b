package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
	"github.com/sandboxmcp/sandboxmcp/backends/process/share"
)

// Init is the server's handle of a sandbox's PID 1, which is in its namespaces and cgroup before the server knows
// which sandbox it will serve.
type Init struct {
	pid         int // in the host's PID namespace
	uid         int // its host user if root starts it; else 0
	pidfd       *os.File
	reap        func() error // waits for it if this process is its parent; an earlier wait would take a thread
	users       *share.Users // owner of uid
	control     *net.UnixConn
	cgroup      *cgroup.Group
	template    *Template     // that forked it
	visible     visible       // the files that show limits
	outdated    func() bool   // reports whether the host's mounts have changed since; nil if a template forked it
	rooted      bool          // its root directory has been a sandbox's since the fork
	foreign     bool          // forked by a forker, not package launch's PID 1
	subreaper   bool          // without a PID namespace
	killTimeout time.Duration // see Config.KillTimeout
	mu          sync.Mutex    // guards stuck, and pidfd once Remove may be called concurrently
	stuck       bool          // the kernel has not ended it in time
}

// execute has PID 1 execute a plan that ends with a ready message. whom is launch.ForInit or launch.ForTemplate.
func (b *Init) execute(ctx context.Context, p *plan, whom byte, fds ...**os.File) error {
	if err := send(b, p, whom); err != nil {
		return fmt.Errorf("send to PID 1: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { b.control.SetReadDeadline(time.Unix(1, 0)) })
	var m launch.Message
	_, received, err := receive(b.control, messageBytes(&m))
	switch {
	case !stop():
		err = fmt.Errorf("%w: PID 1 is in %s", stopReason(ctx), p.whereabouts(b.pid))
	case errors.Is(err, unix.EMFILE):
	case err != nil:
		err = fmt.Errorf("PID 1 died while it set up the sandbox: %w", err)
	case m.Kind != launch.Ready:
		err = p.explain(m)
	case len(received) != len(fds):
		err = fmt.Errorf("PID 1 sent %d descriptors, want %d: this is a bug", len(received), len(fds))
	}
	for i, f := range received {
		if err != nil {
			f.Close()
		} else {
			*fds[i] = f
		}
	}
	return err
}

// PID returns the process ID in the host's namespace.
func (b *Init) PID() int { return b.pid }

// UID returns the host user if root starts PID 1; else 0.
func (b *Init) UID() int { return b.uid }

// alive reports whether PID 1 is running.
func (b *Init) alive() bool { return !procfs.HasEnded(b.pidfd) }

// kill kills PID 1 and everything in its PID namespace, and returns when all processes have ended: PID 1 becomes
// waitable only after the kernel has ended the others. If the kernel does not end it in time, kill returns false.
func (b *Init) kill() (gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pidfd == nil {
		return true
	}
	b.signal()
	timeout := b.killTimeout
	if b.stuck { // the time has been used up before
		timeout = 0
	}
	b.stuck = !procfs.EndsWithin(b.pidfd, timeout)
	if b.stuck {
		b.control.Close() // otherwise its readers would wait as long
	}
	return !b.stuck
}

// startKill sends kill's signal without waiting.
func (b *Init) startKill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pidfd != nil {
		b.signal()
	}
}

// signal starts ending PID 1 and its descendants. The caller holds mu.
func (b *Init) signal() {
	if b.subreaper {
		b.control.CloseWrite() // makes it kill its descendants and exit
	} else {
		unix.PidfdSendSignal(int(b.pidfd.Fd()), unix.SIGKILL, nil, 0)
	}
}

// Remove kills PID 1 and removes its resources, in the background if it is stuck.
func (b *Init) Remove() {
	if b.kill() {
		b.release()
		return
	}
	slog.Warn("a sandbox does not end: the kernel does not answer", "pid", b.pid, "waited", b.killTimeout)
	go func() {
		for !procfs.EndsWithin(b.pidfd, time.Hour) {
		}
		b.release()
	}()
}

// release releases the resources of a PID 1 that has ended.
func (b *Init) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.control != nil {
		b.control.Close()
	}
	if b.pidfd != nil {
		b.pidfd.Close()
		b.pidfd = nil
	}
	if b.reap != nil {
		b.reap()
	}
	b.cgroup.Release()
	b.cgroup = nil
	b.visible.dir.Close() // may be nil
	if b.users != nil {
		b.users.Return(b.uid)
		b.users = nil
	}
	if b.template != nil {
		b.template.Release()
		b.template = nil
	}
}

// messages are buffers of encoded plans.
var messages = sync.Pool{New: func() any { return new([]byte) }}

// send sends PID 1 a plan with its descriptors. whom is launch.ForInit, launch.ForProgram or launch.ForTemplate. A
// small plan is part of the message if PID 1 is package launch's.
func send(b *Init, p *plan, whom byte) error {
	const small = 64 << 10
	hello := [launch.HelloSize]byte{whom}
	buffer := messages.Get().(*[]byte)
	message, err := p.encode(append((*buffer)[:0], hello[:]...))
	if err != nil {
		return err
	}
	if len(message) <= small {
		*buffer = message
		defer func() {
			clear(*buffer) // a program's environment may contain secrets
			messages.Put(buffer)
		}()
	}
	var fds []int
	if len(message) > small || b.foreign {
		file, err := memfd(message[launch.HelloSize:])
		if err != nil {
			return err
		}
		defer file.Close()
		fds = append(fds, int(file.Fd()))
		message = message[:1]
	}
	for _, f := range p.files {
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = b.control.WriteMsgUnix(message, rights, nil)
	return err
}
