package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
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

	words bool // the server may be shown the beginning of a line
	sent  int  // bytes of held that it was shown

	dialed chan struct{} // closed when the two below are set
	server net.Conn
	err    error

	quiet chan struct{} // closed when the two below are set, and nobody reads from server
	said  []byte        // what the server said before the client
	reset bool

	hurry hurry // ends look
}

// start begins to dial. opens is that TLS to the name is opened by the relay, for the sake of a secret:
// then nothing is sent that the relay has not read.
func (c *connection) start(ctx context.Context, opens bool) *opening {
	o := &opening{c: c, dialed: make(chan struct{}), quiet: make(chan struct{})}
	o.words = !opens && !slices.Contains(likeWeb[:], c.port)
	o.hurry = hurry{conn: c.client, done: make(chan struct{})}
	c.work.Go(func() {
		defer close(o.quiet)
		o.server, o.err = c.dial(ctx, c.counts)
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
//
// A server that ends without a word said nothing about itself, and may listen still: its end is passed on,
// since the client may be waiting for it to speak first, and the client is looked at as before.
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
	if err == io.EOF {
		_ = closeWrite(o.c.client)
		return
	}
	o.said, o.reset = b[:n], err != nil
	if o.reset || !saysHTTP(o.said) {
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
		case s != sawLittle && s != sawOther && s != sawDoubt && o.sent > 0:
			return sawDoubt, whyLate, nil
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
			// From here on the client may take its time between its words, like one that is passed on: the
			// idle limit ends it when it says nothing. It can't say more than maxLine bytes before look knows.
			timer.Stop()
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
