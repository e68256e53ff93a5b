//go:build !linux

package egress

import "net"

// The events to wait for; unused on this system.
const (
	readable int16 = iota
	hungUp
)

// waitForEvent returns at once, and the next read waits. For a hang-up it returns an error.
func waitForEvent(_ net.Conn, events int16) error {
	if events == hungUp {
		return net.ErrClosed
	}
	return nil
}

func isReset(net.Conn) bool { return false }

// descriptorLimit returns 0: the limit is unknown.
func descriptorLimit() int { return 0 }
