//go:build !linux

package egress

import "net"

// The events to wait for; this system has none.
const (
	readable int16 = iota
	hungUp
)

// waitForEvent returns at once, and the read that follows waits. For a hang-up it returns an error.
func waitForEvent(_ net.Conn, events int16) error {
	if events == hungUp {
		return net.ErrClosed
	}
	return nil
}

func isReset(net.Conn) bool { return false }

// descriptorLimit returns 0: their number is not known.
func descriptorLimit() int { return 0 }
