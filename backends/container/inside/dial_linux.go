package inside

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Dial calls on the server, and hands it one end of a pair to talk over: the socket that it is called on
// has a name on the host, which programs could read (/proc/net/unix) as long as the connection stands.
func Dial(path string) (net.Conn, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	defer conn.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	if _, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte{0}, unix.UnixRights(fds[1]), nil); err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	own, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	return own, nil
}
