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
	sniffTimeout = 10 * time.Second // for a complete ClientHello or first line
	// httpAfterFailure is the time for a client to start HTTP after its connection failed, so that the response can have
	// the reason.
	httpAfterFailure = time.Second
)

const whySlow = "the first bytes take too long: neither a TLS ClientHello nor a first line came to its end"

// prelude is the start of a connection: it dials the name while it reads the client's first bytes, and sends none of
// them before the protocol is known. A server may speak first.
type prelude struct {
	c          *connection
	held       []byte // bytes from the client
	clientDone bool   // the client has closed its sending half

	mayGetPart bool // the server may get an unfinished line
	sent       int  // bytes of held that were sent

	dialed chan struct{} // closed when server and err are set
	server net.Conn
	err    error

	quiet    chan struct{} // closed when server and err are set, and nobody reads from server
	greeting []byte        // bytes that the server sent first
	reset    bool

	reads readPhase // of sniff
}

// startPrelude starts dialing. opens says that the relay terminates TLS to the name, for a secret: then only bytes that
// the relay has read are sent.
func (c *connection) startPrelude(ctx context.Context, opens bool) *prelude {
	o := &prelude{c: c, held: c.held, dialed: make(chan struct{}), quiet: make(chan struct{})}
	o.mayGetPart = !opens && !slices.Contains(webLikePorts[:], c.port)
	o.reads = readPhase{conn: c.client, done: make(chan struct{})}
	c.work.Go(func() {
		defer close(o.quiet)
		o.server, o.err = c.dial(ctx, c.counts)
		close(o.dialed)
		if o.err == nil {
			o.awaitGreeting()
			return
		}
		select {
		case <-time.After(httpAfterFailure):
			o.reads.interrupt()
		case <-o.reads.done:
		}
	})
	return o
}

// awaitGreeting waits for a server that speaks first. An HTTP server starts with HTTP, so after another greeting the
// client's bytes need no check.
//
// A server that closes its sending half silently may still read: the end is forwarded, since the client may wait for
// the server to speak first, and the client is checked as before.
func (o *prelude) awaitGreeting() {
	select {
	case <-o.reads.done:
		return
	default:
	}
	if waitForEvent(o.server, readable) != nil {
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
		o.reads.interrupt()
	}
}

// sniffClient reads until the client's protocol is known. The protocol of a connection whose server spoke first, or
// whose dial failed, is protoOther.
func (o *prelude) sniffClient() (protocol, string, error) {
	defer o.reads.finish()
	var late time.Time // deadline for the started message
	for {
		s, why := sniff(o.held, o.c.port, o.clientDone)
		switch {
		case s != protoUndecided && s != protoOther && s != protoRefused && o.sent > 0:
			return protoRefused, whyLate, nil
		case s != protoUndecided:
			return s, why, nil
		}
		if late.IsZero() && len(o.held) > 0 && o.sent == 0 {
			late = time.Now().Add(sniffTimeout)
		}
		until, pausing := late, false
		if soon := time.Now().Add(pause); o.mayAwaitAnswer() && (late.IsZero() || soon.Before(late)) {
			until, pausing = soon, true
		}
		err := o.readMore(until)
		switch {
		case err == nil:
		case err == io.EOF:
			o.clientDone = true
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, "", err
		case o.reads.wasInterrupted():
			return protoOther, "", nil
		case pausing:
			// From here on only the idle limit applies to the client, as to a forwarded one. sniff decides within maxFirstLine
			// bytes.
			late = time.Time{}
			if o.sendPart() != nil {
				return protoOther, "", nil
			}
		default:
			return protoRefused, whySlow, nil
		}
	}
}

// readMore reads more from the client, until a time that may be zero. A silent client needs no memory.
func (o *prelude) readMore(until time.Time) error {
	o.reads.setDeadline(until)
	if len(o.held) == 0 {
		if err := waitForEvent(o.c.client, readable); err != nil {
			return err
		}
	}
	if len(o.held) == cap(o.held) {
		o.held = append(make([]byte, 0, max(2<<10, 2*cap(o.held))), o.held...)
	}
	n, err := o.c.client.Read(o.held[len(o.held):cap(o.held)])
	o.held = o.held[:len(o.held)+n]
	if n > 0 {
		o.c.noteActivity()
		return nil
	}
	return err
}

// waitForServer waits for the server, and returns it with its greeting unread. It may be called after sniffClient.
func (o *prelude) waitForServer() (*tap, error) {
	<-o.dialed
	if o.err != nil {
		return nil, o.err
	}
	_ = o.server.SetReadDeadline(pastDeadline)
	<-o.quiet
	_ = o.server.SetReadDeadline(time.Time{})
	if o.reset {
		return nil, errors.New("the server reset the connection")
	}
	return o.c.newServerTap(o.server, o.greeting), nil
}

// pause is the silence within a line after which a client is assumed to wait for an answer, in a protocol without line
// ends.
const pause = 200 * time.Millisecond

const whyLate = "the server has the beginning of this already, since there was a pause behind it, and now it is a request: " +
	"send the first line at once"

// mayAwaitAnswer reports whether the client may wait for an answer to an unfinished line, on a port that is not
// expected to be HTTP.
func (o *prelude) mayAwaitAnswer() bool {
	if !o.mayGetPart || len(o.held) == o.sent {
		return false
	}
	s, _ := sniffTLS(o.held)
	text := bytes.TrimLeft(o.held, blanks)
	method := text[:len(text)-len(bytes.TrimLeft(text, tokenBytes))]
	request := len(method) < len(text) && slices.Contains(methods[:], strings.ToUpper(string(method)))
	return s == protoOther && len(text) > 0 && !request
}

// sendPart sends the new part of an unfinished line. It is not a request yet, and is checked when it is complete.
func (o *prelude) sendPart() error {
	<-o.dialed
	if o.err != nil {
		return o.err
	}
	n, err := o.server.Write(o.held[o.sent:])
	o.sent += n
	o.c.counts.sent.Add(int64(n))
	o.c.noteActivity()
	return err
}

// pastDeadline is a deadline that ends reads immediately.
var pastDeadline = time.Unix(1, 0)

// readPhase lets another goroutine interrupt the reads of a phase, and no later reads.
type readPhase struct {
	conn net.Conn
	done chan struct{} // closed at the end of the phase

	mu         sync.Mutex
	over, stop bool
}

// setDeadline sets a deadline for reads that are not interrupted.
func (h *readPhase) setDeadline(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.stop {
		_ = h.conn.SetReadDeadline(until)
	}
}

// interrupt ends the reads of a phase that is not over.
func (h *readPhase) interrupt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.stop = true
		_ = h.conn.SetReadDeadline(pastDeadline)
	}
}

func (h *readPhase) wasInterrupted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stop
}

// finish ends the phase: later reads are not interrupted.
func (h *readPhase) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	_ = h.conn.SetReadDeadline(time.Time{})
	close(h.done)
}
