package call

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// bare is a sandbox without containment: the tests are about the connection to it.
type bare struct {
	dir     string
	keep    context.Context
	close   func()
	once    sync.Once
	gateway backends.Sockets
}

var held = backends.Containment{Backend: "bare", Layers: []backends.Layer{{Name: backends.LayerNNP, Detail: "not at all"}}}

// bareStart returns a starter of bare sandboxes with sockets on free ports.
func bareStart(t testing.TB) starter {
	return func(_ context.Context, spec backends.Spec) (backends.Sandbox, error) {
		if spec.Language == "latin" {
			return nil, &backends.Refusal{Layer: backends.LayerPID, Reason: "nobody speaks it", Remedy: remedy.Text{"learn"}}
		}
		b := &bare{dir: t.TempDir()}
		b.keep, b.close = context.WithCancel(context.Background())
		listen := func() net.Listener {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Error(err)
			}
			return l
		}
		if len(spec.Gateway) == 0 {
			return b, nil
		}
		b.gateway.DNSStream = listen()
		for range spec.Gateway {
			b.gateway.Ports = append(b.gateway.Ports, listen())
		}
		var err error
		b.gateway.DNS, err = net.ListenPacket("udp4", "127.0.0.1:0")
		return b, err
	}
}

func (b *bare) Exec(ctx context.Context, cmd backends.Command, s backends.Streams) (r backends.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.keep, cancel)()
	c := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...)
	c.Dir, c.Env = b.dir, append(os.Environ(), cmd.Env...)
	c.Stdout, c.Stderr, c.WaitDelay = s.Stdout, s.Stderr, time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	if s.Stdin != nil {
		to, err := c.StdinPipe()
		if err != nil {
			return r, err
		}
		go func() {
			io.Copy(to, s.Stdin)
			to.Close()
		}()
	}
	if s.Channel != nil {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return r, err
		}
		theirs := os.NewFile(uintptr(fds[1]), "theirs")
		defer theirs.Close()
		syscall.SetNonblock(fds[1], false)
		c.ExtraFiles = []*os.File{theirs}
		s.Channel(os.NewFile(uintptr(fds[0]), "ours"))
	}
	begun := time.Now()
	if err := c.Start(); err != nil {
		return r, err
	}
	for _, f := range c.ExtraFiles {
		f.Close()
	}
	if slices.Contains(cmd.Env, "LATE=1") {
		unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	s.Begun(held)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-s.Interrupt:
				syscall.Kill(-c.Process.Pid, syscall.SIGINT)
			case <-done:
				return
			}
		}
	}()
	c.Wait()
	r.Wall, r.Ended = time.Since(begun), backends.EndedOK
	switch status := c.ProcessState.Sys().(syscall.WaitStatus); {
	case ctx.Err() != nil:
		r.Ended, r.ExitCode, r.Signal = backends.EndedCancelled, 137, "SIGKILL"
		if b.keep.Err() != nil {
			r.Ended = backends.EndedSignal
		}
	case status.Signaled():
		r.Ended, r.ExitCode, r.Signal = backends.EndedSignal, 128+int(status.Signal()), status.Signal().String()
	case status.ExitStatus() > 0:
		r.Ended, r.ExitCode = backends.EndedExit, status.ExitStatus()
	}
	r.PeakMemory, r.Hit = 1<<20, []string{"disk"}
	return r, nil
}

func (b *bare) Files() backends.Files     { return bareFiles{b.dir} }
func (b *bare) Gateway() backends.Sockets { return b.gateway }
func (b *bare) Usage() backends.Usage {
	return backends.Usage{CPU: 3, Memory: 4, Disk: 5, Processes: 6}
}
func (b *bare) Sample(bool) func() backends.Usage { return b.Usage }
func (b *bare) Limit(l backends.Limits) (backends.Limits, error) {
	if l.RAM == 1 {
		return l.WithDefaults(), errors.New("too little")
	}
	return l.WithDefaults(), nil
}

func (b *bare) Close() error {
	b.once.Do(func() {
		b.close()
		b.gateway.Close()
	})
	return nil
}

type bareFiles struct{ dir string }

func (f bareFiles) Put(name string, mode uint32, r io.Reader) error {
	if !filepath.IsLocal(name) {
		return &fs.PathError{Op: "put", Path: name, Err: fs.ErrPermission}
	}
	file, err := os.OpenFile(filepath.Join(f.dir, name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(mode))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, r)
	return err
}

func (f bareFiles) Each(ctx context.Context, do func(backends.File) error) (skipped int, err error) {
	err = filepath.WalkDir(f.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			skipped++
			return nil
		}
		name, _ := filepath.Rel(f.dir, path)
		return do(backends.File{Name: name, Size: info.Size(), Mode: uint32(info.Mode().Perm()), Changed: info.ModTime(),
			Open: func() (io.ReadCloser, error) { return os.Open(path) }, ID: fileID(info)})
	})
	return skipped, err
}

func (f bareFiles) Changes(context.Context, func(backends.Change) error) error {
	return backends.ErrNotProposed
}

func fileID(info fs.FileInfo) backends.FileID {
	st := info.Sys().(*syscall.Stat_t)
	return backends.FileID{uint64(st.Dev), st.Ino}
}

func (f bareFiles) Open(name string, id backends.FileID) (io.ReadCloser, error) {
	r, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return nil, err
	}
	if info, err := r.Stat(); err != nil || fileID(info) != id {
		r.Close()
		return nil, errors.New("it was replaced")
	}
	return r, nil
}
