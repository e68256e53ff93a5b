package inside

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// A pod has three containers of ours. The first copies this program into a volume and ends. PID 1 of the second is
// the init, which waits for a connection like on an engine that mounts a socket. The third, of another user and in
// its own PID namespace, listens on that socket: the server executes an attach there, whose standard streams are
// the connection. No program can reach the third, so none can end the connection or replace it. While nothing has
// run in the pod, another server may claim it, whose connection is the next.

// First arguments of a pod's helpers: no language has these names.
const (
	podCopy  = "copy"
	podRelay = "relay"
)

// attachSocket is where the relay waits for the attach, in a volume of their own.
const attachSocket = "/run/sandboxmcp/attach"

// podTimeout bounds the wait of one part of a pod for another, and for the server.
const podTimeout = 2 * time.Minute

// podHelper runs a helper; is is false in PID 1 of a sandbox.
func podHelper(args []string) (is bool, err error) {
	switch {
	case args[0] == podCopy && len(args) > 1:
		return true, copySelf(args[1], args[2:])
	case args[0] == podRelay:
		return true, relay()
	case args[0] == role.PodAttach:
		return true, attach()
	}
	return false, nil
}

// copySelf writes this program, its socket's directory and files of /etc, each as "name=content", into an empty
// volume.
func copySelf(dir string, etc []string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, filepath.Base(call.InitPath)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close(), os.Mkdir(filepath.Join(dir, filepath.Base(filepath.Dir(call.SocketPath))), 0o555)); err != nil {
		return err
	}
	for _, file := range etc {
		name, content, _ := strings.Cut(file, "=")
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(content), 0o444); err != nil {
			return err
		}
	}
	return nil
}

// relay connects each connection of the init to an attach, one after the other, and ends with the init.
func relay() error {
	inits, err := listen(call.SocketPath)
	if err != nil {
		return err
	}
	control, err := acceptEnd(inits)
	if err != nil {
		return err
	}
	defer control.Close()
	for {
		init, err := call.ReceiveFiles(control, 1)
		if err != nil {
			return nil // the init has ended
		}
		if err := relayOne(init[0]); err != nil {
			return err
		}
	}
}

// relayOne connects one connection of the init to the next attach, and returns when that has ended.
func relayOne(init *os.File) error {
	defer init.Close()
	servers, err := listen(attachSocket)
	if err != nil {
		return err
	}
	conn, err := acceptEnd(servers)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := call.SendFiles(conn, init); err != nil {
		return fmt.Errorf("hand over the connection: %w", err)
	}
	init.Close() // otherwise the init would not notice the attach's end
	_, _ = conn.Read(make([]byte, 1))
	return nil
}

func listen(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o666) // the init has another user
}

// acceptEnd receives the end of a socket pair over one connection, and removes the socket: programs see the names
// of listening sockets while a connection to them exists.
func acceptEnd(l *net.UnixListener) (*net.UnixConn, error) {
	defer l.Close()
	if err := l.SetDeadline(time.Now().Add(podTimeout)); err != nil {
		return nil, err
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, fmt.Errorf("nobody connected: %w", err)
	}
	defer conn.Close()
	ends, err := call.ReceiveConns(conn, 1)
	if err != nil {
		return nil, err
	}
	return ends[0], nil
}

// attach connects its standard streams to the init, and ends when either side does.
func attach() error {
	relay, err := retryDial(attachSocket)
	if err != nil {
		return err
	}
	defer relay.Close() // the relay ends with us
	ends, err := call.ReceiveConns(relay, 1)
	if err != nil {
		return err
	}
	init := ends[0]
	defer init.Close()
	done := make(chan struct{}, 2)
	move := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from)
		done <- struct{}{}
	}
	go move(init, os.Stdin)
	go move(os.Stdout, init)
	<-done
	return nil
}

// dialRelay connects the init to the relay, and returns a function that connects one server. The relay can't
// receive descriptors for it.
func dialRelay() (next func() (io.ReadWriteCloser, error), err error) {
	control, err := retryDial(call.SocketPath)
	return func() (io.ReadWriteCloser, error) {
		conns, err := sendEnds(control, 1)
		if err != nil {
			return nil, fmt.Errorf("reach the relay: %w", err)
		}
		return conns[0], nil
	}, err
}

// retryDial connects once the socket exists: the containers of a pod start in any order.
func retryDial(path string) (*net.UnixConn, error) {
	for end := time.Now().Add(podTimeout); ; time.Sleep(10 * time.Millisecond) {
		conns, err := dialEnds(path, 1)
		if err == nil {
			return conns[0], nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("reach the relay: %w", err)
		}
	}
}
