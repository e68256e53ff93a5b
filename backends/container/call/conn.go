package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Conn is the server's end of the connection with an init. Whatever the init sends, the worst it can do is to end the
// connection.
type Conn struct {
	rwc   io.ReadWriteCloser
	facts Facts

	initTimeout time.Duration // for an answer of the init

	answered chan answer // the init's reply to Build, once
	done     chan struct{}
	once     sync.Once
	work     sync.WaitGroup

	mu        sync.Mutex
	endReason error // the connection ended, if known
	used      bool  // for a sandbox
	session   *yamux.Session
	// accepting is set while a goroutine accepts the streams that the init opens.
	accepting bool
}

// answer is the init's reply to Build, with the sockets that follow it.
type answer struct {
	built built
	socks []socket
	err   error
}

// Handshake waits for the init's greeting and returns the connection, which owns rwc. Closing rwc must end a Read and a
// Write that wait. An init of another version is an error that says so.
func Handshake(ctx context.Context, conn io.ReadWriteCloser) (*Conn, error) {
	l := &Conn{rwc: conn, initTimeout: defaultInitTimeout, answered: make(chan answer, 1), done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { l.end(ctx.Err()) })
	defer stop()
	if err := l.readGreeting(); err != nil {
		err = l.lostError(err)
		l.Close()
		return nil, err
	}
	l.work.Go(l.awaitAnswer)
	if !stop() {
		l.Close()
		return nil, ctx.Err()
	}
	return l, nil
}

// readGreeting checks the init's version and stores its facts.
func (c *Conn) readGreeting() error {
	var g struct {
		Version int
		Facts   json.RawMessage // which only the same version understands
	}
	if err := read(c.rwc, &g, maxInitMessage); err != nil {
		return err
	}
	if g.Version != version {
		return fmt.Errorf("the binary in the container speaks version %d of the protocol and this one %d: they are of different releases", g.Version, version)
	}
	if err := json.Unmarshal(g.Facts, &c.facts); err != nil {
		return fmt.Errorf("decode the init's facts: %w", err)
	}
	return nil
}

// awaitAnswer reads the init's next message in the background, so that an idle connection notices its end.
func (c *Conn) awaitAnswer() {
	var a answer
	if a.err = read(c.rwc, &a.built, maxInitMessage); a.err == nil && a.built.Descriptors {
		a.socks, a.err = c.receiveSockets(a.built)
	}
	if a.err != nil {
		a.err = c.lostError(a.err)
		c.end(a.err)
	}
	c.answered <- a
}

// Facts returns the facts of the init's greeting.
func (c *Conn) Facts() Facts { return c.facts }

// Done returns a channel that is closed when the connection has ended, for whatever reason.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection, and with it the init and everything that runs there.
func (c *Conn) Close() error {
	c.end(nil)
	c.work.Wait()
	select {
	case a := <-c.answered: // Build did not take it
		closeAll(a.socks)
	default:
	}
	return nil
}

// end closes the connection. The first reason is the one that is reported.
func (c *Conn) end(why error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.endReason = why
		session := c.session
		c.mu.Unlock()
		close(c.done)
		c.rwc.Close()
		if session != nil {
			session.Close()
		}
	})
}

func (c *Conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// lostError ends the connection because of err and returns the error to report: ErrLost with its reason, the caller's
// own context, or the init's breach of the protocol.
func (c *Conn) lostError(err error) error {
	if c.ended() {
		return c.endError()
	}
	c.mu.Lock()
	known := c.accepting && c.session.IsClosed()
	c.mu.Unlock()
	if known {
		<-c.done // the goroutine that accepts streams learns why, and ends the connection
	} else {
		c.endWith(err)
	}
	return c.endError()
}

// endWith ends the connection because of an error in reading or writing it, or of a message that breaks the protocol.
func (c *Conn) endWith(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, yamux.ErrSessionShutdown) {
		err = nil // it just ended
	} else if errors.Is(err, yamux.ErrTimeout) {
		err = errors.New("its init does not answer")
	}
	c.end(err)
}

// endError returns the error of a connection that has ended.
func (c *Conn) endError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch why := c.endReason; {
	case why == nil:
		return ErrLost
	case errors.Is(why, ErrLost), errors.Is(why, context.Canceled), errors.Is(why, context.DeadlineExceeded):
		return why
	default:
		return fmt.Errorf("%w: %w", ErrLost, why)
	}
}

// protocolError ends a connection on which something arrived that our init does not send.
func (c *Conn) protocolError(what string, args ...any) error {
	return c.lostError(fmt.Errorf("its init broke the protocol: "+what, args...))
}

// maxStreams is how many streams may be open at once. More are the fault of an init that does not close its ends; each
// holds a window at most.
const maxStreams = 4096

// openRequest opens a stream and sends a request on it.
func (c *Conn) openRequest(q request) (*yamux.Stream, error) {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if session.NumStreams() > maxStreams {
		return nil, c.protocolError("it leaves its streams open")
	}
	stream, err := session.OpenStream()
	if err != nil {
		return nil, c.lostError(err)
	}
	stream.SetWriteDeadline(time.Now().Add(ioTimeout))
	err = write(stream, q, maxServerMessage)
	stream.SetWriteDeadline(time.Time{})
	if err != nil {
		stream.Close()
		if errors.Is(err, errLong) {
			return nil, err
		}
		return nil, c.lostError(err)
	}
	return stream, nil
}

// roundTrip sends a request and waits for its one response.
func (c *Conn) roundTrip(q request, within time.Duration) (m response, err error) {
	stream, err := c.openRequest(q)
	if err != nil {
		return m, err
	}
	defer stream.Close()
	stream.SetReadDeadline(time.Now().Add(within))
	if err := read(stream, &m, maxInitMessage); errors.Is(err, yamux.ErrTimeout) {
		return m, errors.New("the container's init does not answer")
	} else if err != nil {
		return m, c.lostError(err)
	}
	return m, m.Failure.err()
}

// expired is a deadline that has passed: it ends a Read or Write that waits.
var expired = time.Unix(1, 0)
