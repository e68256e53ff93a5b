package kernel

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// bare is a sandbox that contains only the interpreter with its channel, so that nothing else can cause a test's
// result.
type bare struct {
	dir  string
	path map[string]string // interpreters by name
	pid  int               // of the last interpreter
}

func newBare(t testing.TB, path map[string]string) *bare {
	return &bare{dir: t.TempDir(), path: path}
}

func (b *bare) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	name := cmd.Args[0]
	if at, ok := b.path[name]; ok {
		name = at
	}
	c := exec.Command(name, cmd.Args[1:]...)
	c.Dir, c.Stdout, c.Stderr = b.dir, streams.Stdout, streams.Stderr
	c.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LANG=C.UTF-8"}, cmd.Env)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.WaitDelay = 100 * time.Millisecond
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return backends.Result{}, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return backends.Result{}, err
	}
	streams.Channel(conn)
	c.ExtraFiles = []*os.File{theirs}
	streams.Begun(backends.Containment{Backend: "bare"})
	if err := c.Start(); err != nil {
		return backends.Result{}, err
	}
	b.pid = c.Process.Pid
	theirs.Close()
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case <-streams.Interrupt:
			syscall.Kill(-c.Process.Pid, syscall.SIGINT)
		case <-ctx.Done():
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
			return backends.Result{End: backends.End{Ended: backends.EndedCancelled}}, nil
		case err := <-ended:
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			return b.result(c, err)
		}
	}
}

func (b *bare) result(c *exec.Cmd, err error) (backends.Result, error) {
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) && !errors.Is(err, exec.ErrWaitDelay) {
		return backends.Result{}, err
	}
	switch status := c.ProcessState.Sys().(syscall.WaitStatus); {
	case status.Signaled():
		return backends.Result{End: backends.End{Ended: backends.EndedSignal, ExitCode: 128 + int(status.Signal())}}, nil
	case status.ExitStatus() != 0:
		return backends.Result{End: backends.End{Ended: backends.EndedExit, ExitCode: status.ExitStatus()}}, nil
	}
	return backends.Result{End: backends.End{Ended: backends.EndedOK}}, nil
}

func (b *bare) Files() backends.Files                            { return nil }
func (b *bare) Gateway() backends.Sockets                        { return backends.Sockets{} }
func (b *bare) Usage() backends.Usage                            { return backends.Usage{} }
func (b *bare) Sample(bool) func() backends.Usage                { return b.Usage }
func (b *bare) Close() error                                     { return nil }
func (b *bare) Limit(l backends.Limits) (backends.Limits, error) { return l, nil }
