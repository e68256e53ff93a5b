//go:build !linux

package egress

import "net"

// What may be waited for; nothing can be here.
const (
	readable int16 = iota
	hungUp
)

// wait returns at once where bytes can't be left where they are: the read that follows waits. For a hang-up
// it waits in vain.
func wait(_ net.Conn, events int16) error {
	if events == hungUp {
		return net.ErrClosed
	}
	return nil
}

func isReset(net.Conn) bool { return false }

// descriptors returns 0: their number is not known.
func descriptors() int { return 0 }

// pipes are what Linux has splice(2) for.
type pipes struct{ budget *Budget }

func (*pipes) close() {}

func (g *Gateway) move(to, from net.Conn, moved func(int)) error { return g.copied(to, from, moved) }
