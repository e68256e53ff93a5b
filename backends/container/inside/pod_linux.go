package inside

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// A pod has three containers of ours. The first copies this program into a volume and ends. PID 1 of the second is the
// init, which waits for a connection as with an engine that mounts a socket. The third, of another user and with PIDs of
// its own, holds that socket: the server executes an attach there, whose standard streams are the connection. No
// program can reach the third, so none can end the connection or take its place.

// The first arguments of the helpers of a pod: no language is called so.
const (
	podCopy  = "copy"
	podRelay = "relay"
)

// attachSocket is where the relay waits for the attach, in a volume that only they have.
const attachSocket = "/run/sandboxmcp/attach"

// podTimeout bounds the wait of one part of a pod for another, and for the server.
const podTimeout = 2 * time.Minute

// podHelper runs a helper; is is false for PID 1 of a sandbox.
func podHelper(args []string) (is bool, err error) {
	switch {
	case args[0] == podCopy && len(args) == 2:
		return true, copySelf(args[1])
	case args[0] == podRelay:
		return true, relay()
	case args[0] == role.PodAttach:
		return true, attach()
	}
	return false, nil
}

// copySelf writes this program, the directory of its socket and the program's /etc/hosts into an empty volume.
func copySelf(dir string) error {
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
	return errors.Join(err, to.Close(), os.WriteFile(filepath.Join(dir, "hosts"), []byte("127.0.0.1 localhost\n"), 0o444), os.Mkdir(filepath.Join(dir, filepath.Base(filepath.Dir(call.SocketPath))), 0o555))
}

// relay hands the init's connection to the attach, and ends with it.
func relay() error {
	inits, err := listen(call.SocketPath)
	if err != nil {
		return err
	}
	servers, err := listen(attachSocket)
	if err != nil {
		return err
	}
	init, err := acceptInit(inits)
	if err != nil {
		return err
	}
	conn, err := accept(servers)
	if err != nil {
		init.Close()
		return err
	}
	defer conn.Close()
	_, _, err = conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(init.Fd())), nil)
	init.Close()
	if err != nil {
		return fmt.Errorf("hand over the connection: %w", err)
	}
	_, _ = conn.Read(make([]byte, 1)) // returns when the attach has ended
	return nil
}

func listen(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o666) // the init has another user
}

// accept takes one connection, and removes the socket.
func accept(l *net.UnixListener) (*net.UnixConn, error) {
	defer l.Close()
	if err := l.SetDeadline(time.Now().Add(podTimeout)); err != nil {
		return nil, err
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, fmt.Errorf("nobody connected: %w", err)
	}
	return conn, nil
}

// acceptInit takes the init's connection.
func acceptInit(l *net.UnixListener) (*os.File, error) {
	conn, err := accept(l)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return call.ReceiveDescriptor(conn)
}

// attach connects its standard streams with the init, and ends when either side does.
func attach() error {
	var relay net.Conn
	err := retry(func() (err error) {
		relay, err = net.Dial("unix", attachSocket)
		return err
	})
	if err != nil {
		return err
	}
	defer relay.Close() // the relay ends with us
	file, err := call.ReceiveDescriptor(relay.(*net.UnixConn))
	if err != nil {
		return err
	}
	defer file.Close()
	init, err := net.FileConn(file)
	if err != nil {
		return err
	}
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

// dialRelay connects the init with the relay. The relay can't take descriptors for the server.
func dialRelay() (io.ReadWriteCloser, error) {
	var conn net.Conn
	err := retry(func() (err error) {
		conn, err = Dial(call.SocketPath)
		return err
	})
	return struct{ io.ReadWriteCloser }{conn}, err
}

// retry calls f until it succeeds: the containers of a pod start in any order.
func retry(f func() error) error {
	for end := time.Now().Add(podTimeout); ; time.Sleep(10 * time.Millisecond) {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
