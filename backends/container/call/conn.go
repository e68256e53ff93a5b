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

// Conn is the server's end of the connection with an init. Whatever the init sends, the worst it can do is to end the
// connection.
type Conn struct {
	wire   *duplex.Conn
	facts  Facts
	client *http.ClientConn

	initTimeout time.Duration // for an answer of the init
	pace        atomic.Pointer[Pace]

	ctx    context.Context // until the connection ends; its cause is the reason, ErrLost if that is not known
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
}

// Handshake waits for the init's greeting and returns the connection, which owns conn. Closing conn must end a Read and
// a Write that wait. An init of another version is an error that says so.
func Handshake(ctx context.Context, conn io.ReadWriteCloser) (*Conn, error) {
	c := &Conn{wire: duplex.New(conn), initTimeout: defaultInitTimeout}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { c.end(ctx.Err()) })
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
	c.work.Go(func() { // the library closes the wire when it can't be read
		<-c.wire.Closed()
		c.end(nil)
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
		Facts   json.RawMessage // which only the same version understands
	}
	if err := read(c.wire, &g); err != nil {
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

// Facts returns the facts of the init's greeting.
func (c *Conn) Facts() Facts { return c.facts }

// SetPace bounds the output that this connection and others carry together.
func (c *Conn) SetPace(p *Pace) { c.pace.Store(p) }

// Done returns a channel that is closed when the connection has ended, for whatever reason.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Close ends the connection, and with it the init and everything that runs there.
func (c *Conn) Close() error {
	c.end(nil)
	c.work.Wait()
	return nil
}

// end closes the connection. The first reason is the one that is reported.
func (c *Conn) end(why error) {
	c.cancel(cmp.Or(why, ErrLost))
	c.wire.Close()
}

func (c *Conn) ended() bool { return c.ctx.Err() != nil }

// lostError ends the connection because of err, and returns the error to report: ErrLost with its reason, the caller's
// own context, or the init's breach of the protocol.
func (c *Conn) lostError(err error) error {
	if isEnd(err) {
		err = nil // it just ended
	}
	c.end(err)
	why := context.Cause(c.ctx)
	if errors.Is(why, ErrLost) || errors.Is(why, context.Canceled) || errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	return fmt.Errorf("%w: %w", ErrLost, why)
}

// protocolError ends a connection on which something arrived that our init does not send.
func (c *Conn) protocolError(what string, args ...any) error {
	return c.lostError(fmt.Errorf("its init broke the protocol: "+what, args...))
}

// reply is a response of the init's that is under way. Errors of its methods have ended the connection, but for those
// of the caller: that its context has ended, or that it has closed the reply.
type reply struct {
	conn   *Conn
	res    *http.Response
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	within time.Duration // that the init may be silent
	silent *time.Timer
	err    error // the first of Read
}

// patient bounds what may take the init as long as it likes.
const patient = time.Duration(math.MaxInt64)

// contentError is an error of the reader of a request's content.
type contentError struct{ error }

// ask sends a request, with content if that is not nil, and returns the beginning of the response.
func (c *Conn) ask(ctx context.Context, q request, content io.ReadCloser, within time.Duration) (*reply, error) {
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
		err = r.failed(err)
		r.Close()
		return nil, err
	}
	return r, nil
}

// sent is the body of a request. The time that its content takes does not count as the init's.
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

// failed returns the error to report.
func (r *reply) failed(err error) error {
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
		err = r.failed(err)
		r.err = cmp.Or(r.err, err)
	}
	return n, err
}

// next reads a message.
func (r *reply) next() (m response, err error) {
	if err = read(r, &m); r.err != nil {
		return m, r.err
	}
	if err != nil {
		err = r.conn.lostError(err)
	}
	return m, err
}

// end returns the message after the content, which was read to its end.
func (r *reply) end() (response, error) {
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
	r, err := c.ask(ctx, q, nil, within)
	if err != nil {
		return m, err
	}
	defer r.Close()
	if m, err = r.next(); err != nil {
		return m, err
	}
	return m, m.Failure.err()
}

// Prepare has the init prepare for the sandbox that Build will probably ask for. It must precede Build.
func (c *Conn) Prepare(spec backends.Spec) error {
	if err := checkEncodable(spec); err != nil {
		return err
	}
	_, err := c.roundTrip(context.Background(), request{Op: opPrepare, Spec: &spec}, ioTimeout)
	return err
}

// Build has the init build a sandbox, once. A *backends.Refusal of the init arrives as one. The sandbox's Close ends
// the connection, and so does any error; a connection that ends by itself makes running calls fail with ErrLost.
func (c *Conn) Build(ctx context.Context, spec backends.Spec) (_ backends.Sandbox, err error) {
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err := checkEncodable(spec); err != nil {
		return nil, err
	}
	if _, err := c.roundTrip(ctx, request{Op: opBuild, Spec: &spec}, patient); err != nil {
		return nil, err
	}
	s := &sandbox{conn: c, wall: spec.Limits.WithDefaults().Wall, proposed: spec.Workspace.Propose}
	if local, is := c.wire.ReadWriteCloser.(*Local); is {
		if s.gateway, err = local.takeSockets(spec); err != nil {
			return nil, c.protocolError("take its sockets over: %w", err)
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
		return errors.New("a name in what is to be built is not UTF-8")
	}
	return nil
}
