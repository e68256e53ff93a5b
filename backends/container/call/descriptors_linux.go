package call

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// SendFiles sends one byte with the descriptors of files.
func SendFiles(conn *net.UnixConn, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err := conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(fds...), nil)
	return err
}

// ReceiveFiles reads one byte with n descriptors.
func ReceiveFiles(conn *net.UnixConn, n int) (all []*os.File, err error) {
	buf, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4*n))
	size, m, flags, _, err := conn.ReadMsgUnix(buf, rights)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:m])
	for _, message := range messages {
		fds, _ := syscall.ParseUnixRights(&message) // messages of other kinds contain none
		for _, fd := range fds {
			all = append(all, os.NewFile(uintptr(fd), "received"))
		}
	}
	if err == nil && size == 1 && flags&syscall.MSG_CTRUNC == 0 && len(all) == n {
		return all, nil
	}
	backends.CloseAll(all)
	return nil, errors.Join(err, fmt.Errorf("received %d descriptors, want %d", len(all), n))
}
