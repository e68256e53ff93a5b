package egress

import (
	"net"
	"time"
)

// release gives back what was counted under.
func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range append(c.more, c.counts) {
		c.g.counters.release(e)
	}
}

// adopt has server closed with the connection, or at once if that is over.
func (c *connection) adopt(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		reset(server)
		return false
	}
	c.g.fit(server)
	c.server = append(c.server, server)
	return true
}

// end resets whatever is still open.
func (c *connection) end() { c.close(reset) }

// finish closes whatever is still open, once all was said.
func (c *connection) finish() { c.close(func(conn net.Conn) { _ = conn.Close() }) }

func (c *connection) close(how func(net.Conn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
	how(c.client)
	for _, server := range c.server {
		how(server)
	}
}

// reset closes a connection in such a way that the other side gets an error, not an end.
func reset(conn net.Conn) {
	if t, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = conn.Close()
}

// touch says that something moved.
func (c *connection) touch() { c.moved.Store(int64(time.Since(c.started))) }

// limit ends the connection when nothing moves for so long. One timer does for all reads and
// writes, which leave a note only.
func (c *connection) limit(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.timer = time.AfterFunc(idle, func() {
		left := idle - (time.Since(c.started) - time.Duration(c.moved.Load()))
		if left <= 0 {
			c.end()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.over {
			c.timer.Reset(left)
		}
	})
}
