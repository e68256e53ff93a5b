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

// Conn is the server's side. Whatever the init says on it, the worst that it can do is to end it.
type Conn struct {
	rwc   io.ReadWriteCloser
	facts Facts

	initTimeout time.Duration // that it has with the init

	answered chan answer // what the init says to build, once
	done     chan struct{}
	once     sync.Once
	work     sync.WaitGroup

	mu        sync.Mutex
	endReason error // that it ended, if the reason is known
	used      bool  // for a sandbox
	session   *yamux.Session
	// accepting says that somebody takes the streams that the init opens.
	accepting bool
}

// answer is a message that was built, and the sockets that came along.
type answer struct {
	built built
	socks []socket
	err   error
}

// Handshake waits for the init's greeting on a connection, which it then owns. Closing the connection must
// end a Read and a Write that wait. An init of another version is an error that says so.
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

// awaitAnswer waits for what the init says next, so that a line which ends while nothing is asked of it is seen.
func (c *Conn) awaitAnswer() {
	var a answer
	if a.err = read(c.rwc, &a.built, maxInitMessage); a.err == nil && a.built.Handed {
		a.socks, a.err = c.receiveSockets(a.built)
	}
	if a.err != nil {
		a.err = c.lostError(a.err)
		c.end(a.err)
	}
	c.answered <- a
}

// Facts are what the init greeted with.
func (c *Conn) Facts() Facts { return c.facts }

// Done is closed when the connection has ended, for whatever reason.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection, and with it the init and all that runs there.
func (c *Conn) Close() error {
	c.end(nil)
	c.work.Wait()
	select {
	case a := <-c.answered: // nobody wanted it any more
		closeAll(a.socks)
	default:
	}
	return nil
}

// end ends the connection. The first reason is the one that is told.
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

// lostError is what an error of the connection means: ErrLost and why, the caller's own context, or what the
// init said that it must not say, which ends the line.
func (c *Conn) lostError(err error) error {
	if c.ended() {
		return c.endError()
	}
	c.mu.Lock()
	known := c.accepting && c.session.IsClosed()
	c.mu.Unlock()
	if known {
		<-c.done // whoever accepts streams is told why, and ends the line
	} else {
		c.endWith(err)
	}
	return c.endError()
}

// endWith ends the line because of an error of the connection, or of what was said on it.
func (c *Conn) endWith(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, yamux.ErrSessionShutdown) {
		err = nil // it just ended
	} else if errors.Is(err, yamux.ErrTimeout) {
		err = errors.New("its init does not answer")
	}
	c.end(err)
}

// endError is what is told of a line that has ended.
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

// protocolError ends a line on which something came that our init does not say.
func (c *Conn) protocolError(what string, args ...any) error {
	return c.lostError(fmt.Errorf("its init broke the protocol: "+what, args...))
}
