package podman

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// service is a Podman service of our own, which listens for us alone and ends with us. Containers have other
// parents, and so live on.
type service struct {
	process *os.Process
	socket  int // O_PATH: its name is removed from the file system
	ended   chan struct{}
	stderr  engine.Tail // its standard error
	command string      // that started it
}

// startService starts a service.
func (e *Engine) startService(ctx context.Context, command []string) (*service, error) {
	program, err := engine.FindProgram(e.env["PATH"], command[0])
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(e.env["XDG_RUNTIME_DIR"], "sandboxmcp-podman-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for podman's socket: %w", err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "podman.sock")
	args := slices.Clone(command[1:])
	if hybridCgroups() && !slices.Contains(args, "--runtime") {
		if _, err := engine.FindProgram(e.env["PATH"], "runc"); err == nil {
			args = append(args, "--runtime", "runc")
		}
	}
	cmd := exec.Command(program, append(args, "system", "service", "--time=0", "unix://"+socket)...)
	cmd.Env = e.env.without("CONTAINER_HOST", "CONTAINER_CONNECTION", "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
	s := &service{socket: -1, ended: make(chan struct{}), command: fmt.Sprintf("%q %q", program, args)}
	cmd.Stderr = &s.stderr
	cmd.WaitDelay = time.Second // its children may hold its standard error open
	// Before 5.0, Podman writes a file "oom" into the service's working directory; in /proc it can't.
	cmd.Dir = "/proc"
	// Its own process group: Ctrl-C in our terminal is for us, and we need the service for cleaning up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	if err := s.ready(ctx, socket); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// start starts the process from a thread that lives as long as the process: the kernel sends Pdeathsig when the
// thread that forked ends, not when its process does.
func (s *service) start(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		s.process = cmd.Process
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(s.ended)
		runtime.UnlockOSThread()
	}()
	return <-started
}

// ready waits until the service listens. The open socket can be connected to without its name.
func (s *service) ready(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			s.socket, err = unix.Open(socket, unix.O_PATH|unix.O_CLOEXEC, 0)
			return err
		}
		select {
		case <-s.ended:
			return backends.Refuse("podman system service ended at once: " + s.stderr.String())
		case <-ctx.Done():
			return fmt.Errorf("wait for podman system service: %w", ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (s *service) endpoint() endpoint {
	return endpoint{url: fmt.Sprintf("unix:///proc/self/fd/%d", s.socket), named: true, source: ownService, command: s.command}
}

func (s *service) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// stop signals the service to end, and then kills it. A rootless one is two processes of one group: the second, in
// the user namespace, may outlive the first.
func (s *service) stop() {
	group := -s.process.Pid
	syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
	}
	for begun := time.Now(); syscall.Kill(group, 0) == nil && time.Since(begun) < time.Second/4; {
		time.Sleep(5 * time.Millisecond)
	}
	syscall.Kill(group, syscall.SIGKILL)
	<-s.ended
	if s.socket >= 0 {
		unix.Close(s.socket)
		s.socket = -1
	}
}

// hybridCgroups reports whether this host mixes cgroup v1 and v2: crun refuses to create containers there, runc
// does not.
func hybridCgroups() bool {
	var root, unified unix.Statfs_t
	return unix.Statfs("/sys/fs/cgroup", &root) == nil && root.Type != unix.CGROUP2_SUPER_MAGIC &&
		unix.Statfs("/sys/fs/cgroup/unified", &unified) == nil && unified.Type == unix.CGROUP2_SUPER_MAGIC
}

func (env environ) without(names ...string) []string {
	var list []string
	for name, value := range env {
		if !slices.Contains(names, name) {
			list = append(list, name+"="+value)
		}
	}
	return list
}
