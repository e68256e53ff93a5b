package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/duplex"
)

// Conn is the server's end of the connection to an init. A malicious init can only end the connection.
type Conn struct {
	wire   *duplex.Conn
	facts  Facts
	client *http.ClientConn

	initTimeout time.Duration // bounds an answer of the init
	pace        atomic.Pointer[Pace]

	ctx    context.Context // ends with the connection; its cause is the reason, ErrLost if unknown
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
}

// Handshake waits for the init's greeting and returns the connection, which owns conn. Closing conn must end
// pending Reads and Writes. An init of another version is an error.
func Handshake(ctx context.Context, conn io.ReadWriteCloser) (*Conn, error) {
	c := &Conn{wire: duplex.New(conn), initTimeout: defaultInitTimeout}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { c.shutDown(ctx.Err()) })
	defer stop()
	err := c.readGreeting()
	if err == nil {
		c.client, err = duplex.Client(ctx, c.wire, &http.Transport{HTTP2: clientSettings(), MaxResponseHeaderBytes: maxInitMessage})
	}
	if err != nil {
		err = c.lostError(err)
		c.Close()
		return nil, err
	}
	c.work.Go(func() { // the library closes the wire when a read fails
		<-c.wire.Closed()
		c.shutDown(nil)
	})
	if !stop() {
		c.Close()
		return nil, ctx.Err()
	}
	return c, nil
}

// readGreeting checks the init's version and stores its facts.
func (c *Conn) readGreeting() error {
	var g struct {
		Version int
		Facts   json.RawMessage // valid only between equal versions
	}
	if err := readMessage(c.wire, &g); err != nil {
		return err
	}
	if g.Version != version {
		return fmt.Errorf("the binary in the container speaks version %d of the protocol and this one %d: they are of different releases",
			g.Version, version)
	}
	if err := json.Unmarshal(g.Facts, &c.facts); err != nil {
		return fmt.Errorf("decode the init's facts: %w", err)
	}
	return nil
}

// Facts returns the facts of the init's greeting.
func (c *Conn) Facts() Facts { return c.facts }

// SetPace bounds the total output of all connections with the same Pace.
func (c *Conn) SetPace(p *Pace) { c.pace.Store(p) }

// Done returns a channel that is closed when the connection has ended, for any reason.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Close ends the connection, and with it the init and everything that runs there.
func (c *Conn) Close() error {
	c.shutDown(nil)
	c.work.Wait()
	return nil
}

// shutDown closes the connection. Only the first reason is reported.
func (c *Conn) shutDown(why error) {
	c.cancel(cmp.Or(why, ErrLost))
	c.wire.Close()
}

func (c *Conn) ended() bool { return c.ctx.Err() != nil }

// lostError ends the connection because of err, and returns the error to report: ErrLost with its reason, the
// caller's context error, or the init's protocol violation.
func (c *Conn) lostError(err error) error {
	if isConnEnd(err) {
		err = nil // an end without a reason
	}
	c.shutDown(err)
	why := context.Cause(c.ctx)
	if errors.Is(why, ErrLost) || errors.Is(why, context.Canceled) || errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	return fmt.Errorf("%w: %w", ErrLost, why)
}

// protocolError ends a connection after a message that our own init never sends.
func (c *Conn) protocolError(what string, args ...any) error {
	return c.lostError(fmt.Errorf("its init broke the protocol: "+what, args...))
}

// reply is a response in progress. Errors of its methods have ended the connection, except errors on the caller's
// side: an ended context or a closed reply.
type reply struct {
	conn   *Conn
	res    *http.Response
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	within time.Duration // maximum silence of the init
	silent *time.Timer
	err    error // first error of Read
}

// unlimited is the timeout of requests that may take any time.
const unlimited = time.Duration(math.MaxInt64)

// contentError is an error from the reader of a request's content.
type contentError struct{ error }

// send sends a request, with content if that is not nil, and returns the beginning of the response.
func (c *Conn) send(ctx context.Context, q request, content io.ReadCloser, within time.Duration) (*reply, error) {
	r := &reply{conn: c, within: within}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	post, err := http.NewRequestWithContext(r.ctx, http.MethodPost, "http://init/", nil)
	if err == nil {
		err = setMessage(post.Header, q)
	}
	if err != nil {
		return nil, err
	}
	r.silent = time.AfterFunc(within, func() { r.cancel(errSilent) })
	if content != nil {
		post.Body = &sent{content, r}
	}
	if r.res, err = c.client.RoundTrip(post); err == nil && r.res.StatusCode != http.StatusOK {
		err = fmt.Errorf("its init broke the protocol: status %d", r.res.StatusCode)
	}
	if err != nil {
		err = r.failWith(err)
		r.Close()
		return nil, err
	}
	return r, nil
}

// sent is the body of a request. The time for reading its content does not count against the init.
type sent struct {
	io.ReadCloser
	reply *reply
}

// Read implements [io.Reader].
func (s *sent) Read(b []byte) (int, error) {
	s.reply.silent.Stop()
	defer s.reply.silent.Reset(s.reply.within)
	n, err := s.ReadCloser.Read(b)
	if err != nil && err != io.EOF {
		err = contentError{err}
	}
	return n, err
}

var errSilent = errors.New("its init does not answer")

// failWith ends the reply and returns the error to report.
func (r *reply) failWith(err error) error {
	why := context.Cause(r.ctx)
	if failed, is := errors.AsType[contentError](err); is {
		return failed
	}
	if why != nil && why != errSilent && !r.conn.ended() {
		return why
	}
	return r.conn.lostError(cmp.Or(why, err))
}

// Read implements [io.Reader], of the content.
func (r *reply) Read(b []byte) (int, error) {
	r.silent.Reset(r.within)
	n, err := r.res.Body.Read(b)
	r.silent.Stop()
	if err != nil && err != io.EOF {
		err = r.failWith(err)
		r.err = cmp.Or(r.err, err)
	}
	return n, err
}

// readNext reads a message.
func (r *reply) readNext() (m response, err error) {
	if err = readMessage(r, &m); r.err != nil {
		return m, r.err
	}
	if err != nil {
		err = r.conn.lostError(err)
	}
	return m, err
}

// readLast returns the message after the content, which must have been read to its end.
func (r *reply) readLast() (response, error) {
	m, err := readTrailer(r.res.Trailer)
	if err != nil {
		err = r.conn.lostError(err)
	}
	return m, err
}

// Close ends the request.
func (r *reply) Close() error {
	r.silent.Stop()
	r.cancel(net.ErrClosed)
	if r.res != nil {
		r.res.Body.Close()
	}
	return nil
}

// roundTrip sends a request and waits for its one response.
func (c *Conn) roundTrip(ctx context.Context, q request, within time.Duration) (m response, err error) {
	r, err := c.send(ctx, q, nil, within)
	if err != nil {
		return m, err
	}
	defer r.Close()
	if m, err = r.readNext(); err != nil {
		return m, err
	}
	return m, m.Failure.decode()
}

// Prepare asks the init to prepare for the sandbox that Build is likely to request. It must precede Build.
func (c *Conn) Prepare(spec backends.Spec) error {
	if err := checkEncodable(spec); err != nil {
		return err
	}
	_, err := c.roundTrip(context.Background(), request{Op: opPrepare, Spec: &spec}, ioTimeout)
	return err
}

// Build asks the init to build its only sandbox. A refusal by the init is a *backends.Refusal. The sandbox's Close
// ends the connection, and so does any error; if the connection ends by itself, running calls fail with ErrLost.
func (c *Conn) Build(ctx context.Context, spec backends.Spec) (_ backends.Sandbox, err error) {
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err := checkEncodable(spec); err != nil {
		return nil, err
	}
	if _, err := c.roundTrip(ctx, request{Op: opBuild, Spec: &spec}, unlimited); err != nil {
		return nil, err
	}
	s := &sandbox{conn: c, wall: spec.Limits.WithDefaults().Wall, proposed: spec.Workspace.Propose}
	if local, is := c.wire.ReadWriteCloser.(*Local); is {
		if s.gateway, err = local.receiveSockets(spec); err != nil {
			return nil, c.protocolError("receive its sockets: %w", err)
		}
	} else if spec.Resolves() {
		s.gateway = c.makeSockets(spec.Gateway)
	}
	c.work.Go(func() {
		<-c.Done()
		s.gateway.Close()
	})
	return s, nil
}

// checkEncodable refuses a specification that JSON would change.
func checkEncodable(spec backends.Spec) error {
	if !utf8.ValidString(fmt.Sprint(spec)) {
		return errors.New("a name in the specification is not UTF-8")
	}
	return nil
}
