package inside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	_ "github.com/sandboxmcp/sandboxmcp/backends/process/launch" // its takeover comes first: we start it ourselves
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

func init() {
	role.TakeOver(role.ContainerInit, func() int {
		is, err := podHelper(os.Args[1:])
		if !is {
			err = run(os.Args[1], os.Args[2:])
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "sandboxmcp in the container:", err)
			return 1
		}
		return 0
	})
}

// run serves one sandbox for a language.
func run(language string, args []string) error {
	// Our memory is charged to the container: frequent collection is better than growth.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(24 << 20)
	// No signal of a program ends us; the engine's SIGKILL does.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
		unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGPROF, unix.SIGIO, unix.SIGPWR,
		// When sent by another process, these would also end a Go program; our own faults still do.
		unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS)
	// Programs share our UID and could open /proc/1/mem.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_DUMPABLE): %w", err)
	}
	syscall.Umask(0o022)
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 4))
	makeThreads(8)
	var network call.Facts
	if len(args) > 1 && args[0] == podRelayed {
		targets, err := probeTargets(args[2:])
		if err != nil {
			return err
		}
		settle, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		network.Probed, network.Answered = probe(targets, settle)
	}
	conn, again, err := connect(args)
	if err != nil {
		return err
	}
	b := warm.New(process.New(process.Config{Inside: true, NoInternet: len(network.Answered) > 0}), warm.Config{})
	defer b.Close()
	b.Warm()
	ctx := context.Background()
	used := false
	start := func(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
		used = true
		if err := writeTrust(spec.Trust); err != nil {
			return nil, err
		}
		return b.Start(ctx, spec)
	}
	facts := gatherFacts(b.Backend, b.Runtime(ctx, language))
	facts.Probed, facts.Answered = network.Probed, network.Answered
	for {
		err := call.Serve(ctx, conn, facts, b.Prepare, start)
		conn.Close()
		if used || again == nil {
			return err
		}
		if conn, err = again(); err != nil {
			return err
		}
	}
}

// makeThreads makes Go's runtime create n threads in advance: a program may use up all processes of the container,
// and Go ends us if it can't create a thread then.
func makeThreads(n int) {
	var made, all sync.WaitGroup
	made.Add(n)
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made.Done()
			made.Wait() // so that each goroutine needs its own thread
		})
	}
	all.Wait()
}

// The connection selected by the argument after the language; without one it is the server's socket. For a pod, the
// settling time of a network policy and the addresses to probe follow.
const (
	standardStreams = "-"
	podRelayed      = "pod"
)

// connect connects to the server by its socket, over standard input and output, or through a pod's relay. again
// connects to the next server that leases a sandbox in which nothing has run; nil if there can be none.
func connect(args []string) (conn io.ReadWriteCloser, again func() (io.ReadWriteCloser, error), err error) {
	switch {
	case len(args) == 0:
		conn, err = Dial(call.SocketPath)
		return conn, nil, err
	case args[0] == standardStreams:
		conn, err = openStdio()
		return conn, nil, err
	case args[0] == podRelayed:
		again, err = dialRelay()
		if err != nil {
			return nil, nil, err
		}
		conn, err = again()
		return conn, again, err
	}
	return nil, nil, fmt.Errorf("unknown argument %q", args[0])
}

// stdio is standard input and output as one connection.
type stdio struct{ in, out *os.File }

// openStdio takes over standard input and output, and leaves /dev/null to the programs that we start.
func openStdio() (io.ReadWriteCloser, error) {
	var files [2]*os.File
	for i := range files {
		fd, err := unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, fmt.Errorf("take standard streams: %w", err)
		}
		_ = unix.SetNonblock(fd, true) // otherwise Close would not end a Read
		files[i] = os.NewFile(uintptr(fd), "connection")
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	for i := range files {
		if err := unix.Dup3(int(null.Fd()), i, 0); err != nil {
			return nil, fmt.Errorf("take standard streams: %w", err)
		}
	}
	return stdio{files[0], files[1]}, nil
}

func (s stdio) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s stdio) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// Dial connects to the server's socket.
func Dial(path string) (*call.Local, error) {
	conns, err := dialEnds(path, call.LocalConns)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	return call.NewLocal(conns), nil
}

// dialEnds connects to a socket and sends it the ends of n socket pairs, whose other ends it returns. The listening
// socket has a name on the host, which programs could read (/proc/net/unix) while a connection to it exists.
func dialEnds(path string, n int) ([]*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return sendEnds(conn, n)
}

// sendEnds sends one end of n socket pairs over a Unix socket, and returns the others.
func sendEnds(over *net.UnixConn, n int) ([]*net.UnixConn, error) {
	var ours, theirs []*os.File
	defer func() { backends.CloseAll(append(ours, theirs...)) }()
	for range n {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		ours, theirs = append(ours, os.NewFile(uintptr(fds[0]), "ours")), append(theirs, os.NewFile(uintptr(fds[1]), "theirs"))
	}
	if err := call.SendFiles(over, theirs...); err != nil {
		return nil, err
	}
	return call.OpenConns(ours)
}

// writeTrust writes the certificate file that programs' variables name: the image's certificates, and more. If the
// server could mount it, the file already exists.
func writeTrust(more []byte) error {
	if len(more) == 0 {
		return nil
	}
	if has, err := os.ReadFile(backends.TrustFile); err == nil && bytes.Contains(has, more) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(backends.TrustFile), 0o755); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	if err := os.WriteFile(backends.TrustFile, backends.TrustedWith(more), 0o644); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	return nil
}
