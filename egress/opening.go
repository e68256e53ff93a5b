package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	lookTime = 10 * time.Second // for a ClientHello or a first line to become whole
	// missing is how long a client may still say that it speaks HTTP after its name could not be
	// connected to: then it is told why.
	missing = time.Second
)

const whySlow = "the first bytes take too long: neither a TLS ClientHello nor a first line came to its end"

// opening is the beginning of a connection: the name is dialed while the client's first bytes come, and
// none of them is sent before it was looked at. A server may speak first.
type opening struct {
	c    *connection
	held []byte // what the client said
	fin  bool   // and that was all

	dialed chan struct{} // closed when the two below are set
	server net.Conn
	err    error

	quiet chan struct{} // closed when the three below are set, and nobody reads from server
	said  []byte        // what the server said before the client
	spoke bool          // it was no HTTP
	reset bool

	hurry hurry // ends look
}

// start begins to dial.
func (c *connection) start(ctx context.Context) *opening {
	o := &opening{c: c, dialed: make(chan struct{}), quiet: make(chan struct{})}
	o.hurry = hurry{conn: c.client, done: make(chan struct{})}
	c.work.Go(func() {
		defer close(o.quiet)
		o.server, o.err = c.connect(ctx)
		close(o.dialed)
		if o.err == nil {
			o.listen()
			return
		}
		wait := time.NewTimer(missing)
		defer wait.Stop()
		select {
		case <-wait.C:
			o.hurry.now(needed)
		case <-o.hurry.done:
		}
	})
	return o
}

// listen hears whether the server speaks first. No HTTP server says anything else than HTTP, so the
// client's bytes need not be looked at after other words, in whatever way it was made to say them.
func (o *opening) listen() {
	select {
	case <-o.hurry.done:
		return
	default:
	}
	if wait(o.server, readable) != nil {
		return
	}
	b := make([]byte, 1<<10)
	n, err := o.server.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	o.said = b[:n]
	o.reset = err != nil && err != io.EOF
	o.spoke = n == 0 || !saysHTTP(o.said)
	if o.reset || o.spoke {
		o.hurry.now(needed)
	}
}

// look reads until it is known what the client speaks. What it says of a server that spoke first, or
// of a name that can't be connected to, is sawOther.
func (o *opening) look() (sight, string, error) {
	defer o.hurry.end()
	var timer *time.Timer
	for {
		s, why := look(o.held, o.c.port, o.fin)
		if s != sawLittle {
			return s, why, nil
		}
		if timer == nil && len(o.held) > 0 {
			timer = time.AfterFunc(lookTime, func() { o.hurry.now(tooSlow) })
			defer timer.Stop()
		}
		err := o.read()
		switch {
		case err == io.EOF:
			o.fin = true
		case errors.Is(err, os.ErrDeadlineExceeded):
			if o.hurry.end() == tooSlow {
				return sawDoubt, whySlow, nil
			}
			return sawOther, "", nil
		case err != nil:
			return 0, "", err
		}
	}
}

// read reads some more from the client. It takes no memory for one that says nothing.
func (o *opening) read() error {
	if len(o.held) == 0 {
		if err := wait(o.c.client, readable); err != nil {
			return err
		}
	}
	if len(o.held) == cap(o.held) {
		o.held = append(make([]byte, 0, max(2<<10, 2*cap(o.held))), o.held...)
	}
	n, err := o.c.client.Read(o.held[len(o.held):cap(o.held)])
	o.held = o.held[:len(o.held)+n]
	if n > 0 {
		o.c.touch()
		return nil
	}
	return err
}

// settle waits for the server, and returns it with what it said before put back. It may be called
// once the client was looked at.
func (o *opening) settle() (*tap, error) {
	<-o.dialed
	if o.err != nil {
		return nil, o.err
	}
	_ = o.server.SetReadDeadline(longAgo)
	<-o.quiet
	_ = o.server.SetReadDeadline(time.Time{})
	if o.reset {
		return nil, errors.New("the server reset the connection")
	}
	return o.c.tapped(o.server, o.said), nil
}

var longAgo = time.Unix(1, 0)

// hurry lets others end the reads of one phase, and nothing later.
type hurry struct {
	conn net.Conn
	done chan struct{} // closed when the phase is over

	mu   sync.Mutex
	over bool
	why  cause
}

// cause is why reads are ended.
type cause int

const (
	tooSlow cause = iota + 1 // the client is slow
	needed                   // nobody waits for the client's words any more
)

// now ends reads, if the phase is not over.
func (h *hurry) now(why cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over && h.why == 0 {
		h.why = why
		_ = h.conn.SetReadDeadline(longAgo)
	}
}

// end ends the phase: reads may take their time again. It returns why they were ended, if they were.
func (h *hurry) end() cause {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		_ = h.conn.SetReadDeadline(time.Time{})
		close(h.done)
	}
	return h.why
}
