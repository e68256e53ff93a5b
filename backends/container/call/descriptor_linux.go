package call

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ReceiveDescriptor reads one byte and the descriptor that was sent with it.
func ReceiveDescriptor(conn *net.UnixConn) (*os.File, error) {
	buf, rights := make([]byte, 1), make([]byte, unix.CmsgLen(4)) // room for one: the kernel closes others
	_, n, _, _, err := conn.ReadMsgUnix(buf, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("no descriptor came")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("no descriptor came")
	}
	return os.NewFile(uintptr(fds[0]), "connection"), nil
}
