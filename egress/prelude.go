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
	"time"
)

const (
	sniffTimeout = 10 * time.Second // for a ClientHello or a first line to become whole
	// missing is how long a client may still say that it speaks HTTP after its name could not be
	// connected to: then it is told why.
	missing = time.Second
)

const whySlow = "the first bytes take too long: neither a TLS ClientHello nor a first line came to its end"

// prelude is the beginning of a connection: the name is dialed while the client's first bytes come, and
// none of them is sent before it was looked at. A server may speak first.
type prelude struct {
	c    *connection
	held []byte // what the client said
	fin  bool   // and that was all

	words bool // the server may be shown the beginning of a line
	sent  int  // bytes of held that it was shown

	dialed chan struct{} // closed when the two below are set
	server net.Conn
	err    error

	quiet    chan struct{} // closed when the two below are set, and nobody reads from server
	greeting []byte        // what the server said before the client
	reset    bool

	reads readPhase // ends look
}

// start begins to dial. opens is that TLS to the name is opened by the relay, for the sake of a secret:
// then nothing is sent that the relay has not read.
func (c *connection) start(ctx context.Context, opens bool) *prelude {
	o := &prelude{c: c, dialed: make(chan struct{}), quiet: make(chan struct{})}
	o.words = !opens && !slices.Contains(likeWeb[:], c.port)
	o.reads = readPhase{conn: c.client, done: make(chan struct{})}
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
			o.reads.interrupt(needed)
		case <-o.reads.done:
		}
	})
	return o
}

// listen hears whether the server speaks first. No HTTP server says anything else than HTTP, so the
// client's bytes need not be looked at after other words, in whatever way it was made to say them.
//
// A server that ends without a word said nothing about itself, and may listen still: its end is passed on,
// since the client may be waiting for it to speak first, and the client is looked at as before.
func (o *prelude) listen() {
	select {
	case <-o.reads.done:
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
	o.greeting, o.reset = b[:n], err != nil
	if o.reset || !isServerHTTP(o.greeting) {
		o.reads.interrupt(needed)
	}
}

// sniff reads until it is known what the client speaks. What it says of a server that spoke first, or
// of a name that can't be connected to, is sawOther.
func (o *prelude) sniff() (protocol, string, error) {
	defer o.reads.end()
	var timer *time.Timer
	for {
		s, why := sniff(o.held, o.c.port, o.fin)
		switch {
		case s != protoUndecided && s != protoOther && s != protoRefused && o.sent > 0:
			return protoRefused, whyLate, nil
		case s != protoUndecided:
			return s, why, nil
		}
		if timer == nil && len(o.held) > 0 {
			timer = time.AfterFunc(sniffTimeout, func() { o.reads.interrupt(tooSlow) })
			defer timer.Stop()
		}
		var silent *time.Timer
		if o.waits() {
			silent = time.AfterFunc(pause, func() { o.reads.interrupt(paused) })
		}
		err := o.read()
		if silent != nil {
			silent.Stop()
		}
		if o.reads.resume() && errors.Is(err, os.ErrDeadlineExceeded) {
			// From here on the client may take its time between its words, like one that is passed on: the
			// idle limit ends it when it says nothing. It can't say more than maxLine bytes before look knows.
			timer.Stop()
			if o.show() != nil {
				return protoOther, "", nil
			}
			continue
		}
		switch {
		case err == io.EOF:
			o.fin = true
		case errors.Is(err, os.ErrDeadlineExceeded):
			if o.reads.end() == tooSlow {
				return protoRefused, whySlow, nil
			}
			return protoOther, "", nil
		case err != nil:
			return 0, "", err
		}
	}
}

// read reads some more from the client. It takes no memory for one that says nothing.
func (o *prelude) read() error {
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
func (o *prelude) settle() (*tap, error) {
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
	return o.c.tapped(o.server, o.greeting), nil
}

// pause is how long a client has to be silent in the middle of a line to be taken for one that waits for
// an answer, in a protocol whose messages don't end with a line.
const pause = 200 * time.Millisecond

const whyLate = "the server has the beginning of this already, since there was a pause behind it, and now it is a request: " +
	"send the first line at once"

// waits says whether the client may be waiting for an answer already: to the beginning of a line of text,
// on a port on which HTTP is not expected.
func (o *prelude) waits() bool {
	if !o.words || len(o.held) == o.sent {
		return false
	}
	s, _ := sniffTLS(o.held)
	text := bytes.TrimLeft(o.held, blanks)
	method := text[:len(text)-len(bytes.TrimLeft(text, tokenBytes))]
	request := len(method) < len(text) && slices.Contains(methods[:], strings.ToUpper(string(method)))
	return s == protoOther && len(text) > 0 && !request
}

// show sends the server what it has not seen of a line that has not ended. It is no request before it
// has, and does not end without being looked at.
func (o *prelude) show() error {
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
