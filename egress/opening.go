package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	lookTime = 10 * time.Second // for a ClientHello or a first line to become whole
	// missing is how long a client may still say that it speaks HTTP after its name could not be
	// connected to: then it is told why.
	missing = time.Second
	// pause is how long a client has to be silent in the middle of a line to be taken for one that waits for an
	// answer, in a protocol whose messages don't end with a line.
	pause = 200 * time.Millisecond
)

const whySlow = "the first bytes take too long: neither a TLS ClientHello nor a first line came to its end"

// opening is the beginning of a connection: the name is dialed while the client's first bytes come, and
// none of them is sent before it was looked at. A server may speak first.
type opening struct {
	c    *connection
	held []byte // what the client said
	fin  bool   // and that was all
	sent int    // bytes of held that the server has: the beginning of a line that may never end

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
		switch {
		case s != sawLittle && s != sawOther && o.sent > 0:
			return sawDoubt, whySlow, nil
		case s != sawLittle:
			return s, why, nil
		}
		if timer == nil && len(o.held) > 0 {
			timer = time.AfterFunc(lookTime, func() { o.hurry.now(tooSlow) })
			defer timer.Stop()
		}
		var silent *time.Timer
		if o.waits() {
			silent = time.AfterFunc(pause, func() { o.hurry.now(paused) })
		}
		err := o.read()
		if silent != nil {
			silent.Stop()
		}
		if o.hurry.resume() && errors.Is(err, os.ErrDeadlineExceeded) {
			timer.Stop() // whatever it says next is looked at, too
			if o.show() != nil {
				return sawOther, "", nil
			}
			continue
		}
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

// waits says whether the client may be waiting for an answer already: to the beginning of a line of text,
// on a port on which HTTP is not expected.
func (o *opening) waits() bool {
	if len(o.held) == o.sent || slices.Contains(likeWeb[:], o.c.port) || o.c.g.config.Relay.Opens(o.c.name, o.c.port) {
		return false
	}
	s, _ := lookTLS(o.held)
	text := bytes.TrimLeft(o.held, blanks)
	method := text[:len(text)-len(bytes.TrimLeft(text, tokenBytes))]
	request := len(method) < len(text) && slices.Contains(methods[:], strings.ToUpper(string(method)))
	return s == sawOther && len(text) > 0 && !request
}

// show sends the server what it has not seen of a line that has not ended. It is no request before it
// has, and does not end without being looked at.
func (o *opening) show() error {
	<-o.dialed
	if o.err != nil {
		return o.err
	}
	n, err := o.server.Write(o.held[o.sent:])
	o.sent += n
	o.c.counts.sent.Add(int64(n))
	o.c.touch()
	return err
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
	paused                   // the client is silent
)

// now ends reads, if the phase is not over.
func (h *hurry) now(why cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over && (h.why == 0 || h.why == paused) {
		h.why = why
		_ = h.conn.SetReadDeadline(longAgo)
	}
}

// resume lets reads go on after a pause, and says whether there was one.
func (h *hurry) resume() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != paused {
		return false
	}
	h.why = 0
	_ = h.conn.SetReadDeadline(time.Time{})
	return true
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
