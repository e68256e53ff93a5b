package call

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// connKinds are the kinds of connections: a Unix socket that passes descriptors, or any stream.
var connKinds = []string{"socket", "stream"}

// connPair returns the two ends of a connection.
func connPair(t testing.TB, kind string) (ours, theirs io.ReadWriteCloser) {
	t.Helper()
	if kind == "stream" {
		return net.Pipe()
	}
	var all [2][]*net.UnixConn
	for range LocalConns {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		files := []*os.File{os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")}
		conns, err := OpenConns(files)
		if err != nil {
			t.Fatal(err)
		}
		backends.CloseAll(files)
		all[0], all[1] = append(all[0], conns[0]), append(all[1], conns[1])
	}
	return NewLocal(all[0]), NewLocal(all[1])
}

// starter starts a real sandbox.
type starter func(context.Context, backends.Spec) (backends.Sandbox, error)

// startRemote starts a sandbox at the other end of a new connection.
func startRemote(ctx context.Context, t testing.TB, kind string, spec backends.Spec, real starter) (backends.Sandbox, error) {
	ours, theirs := connPair(t, kind)
	served := make(chan error, 1)
	go func() { served <- Serve(context.Background(), theirs, Facts{PID: 7}, func(backends.Spec) {}, real) }()
	l, err := Handshake(ctx, ours)
	if err != nil {
		return nil, err
	}
	s, err := l.Build(ctx, spec)
	if err != nil {
		<-served
		return nil, err
	}
	return waitingSandbox{s, served}, nil
}

// waitingSandbox is a sandbox whose Close waits for the other side, like a container's.
type waitingSandbox struct {
	backends.Sandbox
	served chan error
}

func (e waitingSandbox) Close() error {
	err := e.Sandbox.Close()
	if e.served != nil {
		served := <-e.served
		e.served <- served
	}
	return err
}
