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

// Line is the server's side. Whatever the init says on it, the worst that it can do is to end it.
type Line struct {
	conn  io.ReadWriteCloser
	facts Facts

	patience time.Duration // that it has with the init

	answer chan answer // what the init says to build, once
	gone   chan struct{}
	once   sync.Once
	work   sync.WaitGroup

	mu      sync.Mutex
	why     error // that it ended, if the reason is known
	used    bool  // for a sandbox
	session *yamux.Session
	// accepting says that somebody takes the streams that the init opens.
	accepting bool
}

// answer is a message that was built, and the sockets that came along.
type answer struct {
	built built
	socks []socket
	err   error
}

// Answer waits for the init's greeting on a connection, which it then owns. Closing the connection must
// end a Read and a Write that wait. An init of another version is an error that says so.
func Answer(ctx context.Context, conn io.ReadWriteCloser) (*Line, error) {
	l := &Line{conn: conn, patience: patience, answer: make(chan answer, 1), gone: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { l.end(ctx.Err()) })
	defer stop()
	if err := l.greeted(); err != nil {
		err = l.lost(err)
		l.Close()
		return nil, err
	}
	l.work.Go(l.hear)
	if !stop() {
		l.Close()
		return nil, ctx.Err()
	}
	return l, nil
}

func (l *Line) greeted() error {
	var g struct {
		Version int
		Facts   json.RawMessage // which only the same version understands
	}
	if err := read(l.conn, &g, mostFromInit); err != nil {
		return err
	}
	if g.Version != version {
		return fmt.Errorf("the binary in the container speaks version %d of the protocol and this one %d: they are of different releases", g.Version, version)
	}
	if err := json.Unmarshal(g.Facts, &l.facts); err != nil {
		return fmt.Errorf("decode the init's facts: %w", err)
	}
	return nil
}

// hear waits for what the init says next, so that a line which ends while nothing is asked of it is seen.
func (l *Line) hear() {
	var a answer
	if a.err = read(l.conn, &a.built, mostFromInit); a.err == nil && a.built.Handed {
		a.socks, a.err = l.receive(a.built)
	}
	if a.err != nil {
		a.err = l.lost(a.err)
		l.end(a.err)
	}
	l.answer <- a
}

// Facts are what the init greeted with.
func (l *Line) Facts() Facts { return l.facts }

// Lost is closed when the connection has ended, for whatever reason.
func (l *Line) Lost() <-chan struct{} { return l.gone }

// Close ends the connection, and with it the init and all that runs there.
func (l *Line) Close() error {
	l.end(nil)
	l.work.Wait()
	select {
	case a := <-l.answer: // nobody wanted it any more
		closeAll(a.socks)
	default:
	}
	return nil
}

// end ends the connection. The first reason is the one that is told.
func (l *Line) end(why error) {
	l.once.Do(func() {
		l.mu.Lock()
		l.why = why
		session := l.session
		l.mu.Unlock()
		close(l.gone)
		l.conn.Close()
		if session != nil {
			session.Close()
		}
	})
}

func (l *Line) ended() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// lost is what an error of the connection means: ErrLost and why, the caller's own context, or what the
// init said that it must not say, which ends the line.
func (l *Line) lost(err error) error {
	if l.ended() {
		return l.reason()
	}
	l.mu.Lock()
	known := l.accepting && l.session.IsClosed()
	l.mu.Unlock()
	if known {
		<-l.gone // whoever accepts streams is told why, and ends the line
	} else {
		l.over(err)
	}
	return l.reason()
}

// over ends the line because of an error of the connection, or of what was said on it.
func (l *Line) over(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, yamux.ErrSessionShutdown) {
		err = nil // it just ended
	} else if errors.Is(err, yamux.ErrTimeout) {
		err = errors.New("its init does not answer")
	}
	l.end(err)
}

// reason is what is told of a line that has ended.
func (l *Line) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch why := l.why; {
	case why == nil:
		return ErrLost
	case errors.Is(why, ErrLost), errors.Is(why, context.Canceled), errors.Is(why, context.DeadlineExceeded):
		return why
	default:
		return fmt.Errorf("%w: %w", ErrLost, why)
	}
}

// breach ends a line on which something came that our init does not say.
func (l *Line) breach(what string, args ...any) error {
	return l.lost(fmt.Errorf("its init broke the protocol: "+what, args...))
}
