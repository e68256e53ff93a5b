package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/duplex"
)

// service is the init's end of a connection: it answers the server's requests.
type service struct {
	local   *Local // nil if descriptors can't be sent
	prepare func(backends.Spec)
	start   func(context.Context, backends.Spec) (backends.Sandbox, error)
	slots   chan struct{} // semaphore for carried connections

	mu       sync.Mutex
	ended    bool           // no further request is served
	work     sync.WaitGroup // requests
	asked    bool           // a sandbox was requested
	sandbox  backends.Sandbox
	jobs     map[uint64]*job
	jobAdded chan struct{} // replaced and closed when a job is added
	conns    map[uint64]*relayed
	accepted uint64 // number of accepted connections
}

// Serve runs the init's end. It sends the greeting, calls prepare for each announced specification, builds the
// requested sandbox with start, serves it, and returns when the connection has ended and the sandbox is closed. The
// end of ctx closes the connection, which must end pending Reads and Writes.
func Serve(ctx context.Context, conn io.ReadWriteCloser, facts Facts, prepare func(backends.Spec),
	start func(context.Context, backends.Spec) (backends.Sandbox, error)) error {
	s := &service{
		prepare: prepare, start: start, slots: make(chan struct{}, maxConns),
		jobs: map[uint64]*job{}, jobAdded: make(chan struct{}), conns: map[uint64]*relayed{},
	}
	s.local, _ = conn.(*Local)
	wire := duplex.New(conn)
	defer wire.Close()
	stop := context.AfterFunc(ctx, func() { wire.Close() })
	defer stop()
	if err := writeMessage(wire, greeting{version, facts}); err != nil {
		return err
	}
	duplex.Serve(newServer(s, s.local != nil), wire)
	s.mu.Lock()
	s.ended = true
	sandbox := s.sandbox
	s.mu.Unlock()
	if sandbox != nil {
		sandbox.Close()
	}
	s.work.Wait()
	return nil
}

// addRequest counts a request until leave is called: Serve waits for it.
func (s *service) addRequest() (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, false
	}
	s.work.Add(1)
	return s.work.Done, true
}

// ServeHTTP serves one request. A response that can't be completed is reset.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	leave, ok := s.addRequest()
	if !ok {
		panic(http.ErrAbortHandler)
	}
	defer leave()
	w.Header()["Content-Type"] = nil // otherwise the library would guess it from a program's output
	out := &stream{w: w, in: r.Body}
	defer out.closeWrites()
	var q request
	if json.Unmarshal([]byte(r.Header.Get(messageName)), &q) != nil {
		panic(http.ErrAbortHandler)
	}
	if err := s.answer(r.Context(), out, q); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// answer serves one request. An error resets the response.
func (s *service) answer(ctx context.Context, out *stream, q request) error {
	switch {
	case q.Op == opPrepare && q.Spec != nil:
		s.prepare(*q.Spec)
		return writeMessage(out, response{})
	case q.Op == opBuild && q.Spec != nil:
		return s.build(out, *q.Spec)
	}
	s.mu.Lock()
	sandbox := s.sandbox
	s.mu.Unlock()
	var m response
	switch {
	case sandbox == nil:
		m.Failure = failureOf(errors.New("there is no sandbox yet"))
	case q.Op == opExec && q.Exec != nil:
		return s.runCommand(ctx, sandbox, out, q.Command, *q.Exec)
	case q.Op == opStderr, q.Op == opChannel:
		return s.serveStream(ctx, out, q)
	case q.Op == opCancel, q.Op == opInterrupt, q.Op == opTerminate, q.Op == opResize && q.Size != nil, q.Op == opSkip && q.Skip != nil,
		q.Op == opCarry && q.Skip != nil:
		s.signalJob(ctx, q)
	case q.Op == opEach:
		return listFiles(ctx, sandbox.Files(), out)
	case q.Op == opOpen && q.Open != nil:
		return openFile(sandbox.Files(), out, *q.Open)
	case q.Op == opChanges:
		return listChanges(ctx, sandbox.Files(), out)
	case q.Op == opUnpack:
		m = unpack(sandbox.Files(), onlyReader{out.in})
	case q.Op == opPut && q.Put != nil:
		m.Failure = failureOf(sandbox.Files().Put(string(q.Put.Name), q.Put.Mode, onlyReader{out.in}))
	case q.Op == opAccept:
		return s.accept(ctx, sandbox, out, q.Socket)
	case q.Op == opSend:
		return s.send(ctx, out, q.Conn)
	case q.Op == opReceive && sandbox.Gateway().DNS != nil:
		return receivePackets(ctx, out, sandbox.Gateway().DNS)
	case q.Op == opReply && q.Packet != nil && sandbox.Gateway().DNS != nil:
		_, err := sandbox.Gateway().DNS.WriteTo(q.Packet.Data, net.UDPAddrFromAddrPort(q.Packet.Remote))
		m.Failure = failureOf(err)
	case q.Op == opClose:
		m.Failure = failureOf(sandbox.Close())
	case q.Op == opUsage:
		u := sandbox.Usage()
		m.Usage = &u
	case q.Op == opLimit && q.Limit != nil:
		l, err := sandbox.Limit(*q.Limit)
		m.Limits, m.Failure = &l, failureOf(err)
	default:
		m.Failure = failureOf(errors.New("the container's init can't do that: this is our bug"))
	}
	return writeMessage(out, m)
}

// build starts the only sandbox, and sends its sockets if descriptors can be sent.
func (s *service) build(out *stream, spec backends.Spec) error {
	s.mu.Lock()
	asked := s.asked
	s.asked = true
	s.mu.Unlock()
	if asked {
		return errors.New("a second sandbox")
	}
	// Not the request's context: the sandbox outlives the request; the end of the connection closes it.
	sandbox, err := s.start(context.Background(), spec)
	if err != nil {
		return writeMessage(out, response{Failure: failureOf(err)})
	}
	s.mu.Lock()
	if s.sandbox = sandbox; s.ended {
		defer sandbox.Close()
	}
	s.mu.Unlock()
	if s.local != nil && spec.Resolves() {
		defer sandbox.Gateway().Close()
		if err := s.local.sendSockets(sandbox.Gateway()); err != nil {
			return fmt.Errorf("send sockets: %w", err)
		}
	}
	return writeMessage(out, response{})
}

// stream is a response in progress, with the rest of its request's body. Copiers of program output may write to it
// after the request.
type stream struct {
	in io.Reader

	mu    sync.Mutex
	w     http.ResponseWriter
	ended bool
}

// Write implements [io.Writer], and sends b at once.
func (s *stream) Write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(b)
}

// write is Write for a caller that holds mu.
func (s *stream) write(b []byte) (n int, err error) {
	if s.ended {
		return 0, io.ErrClosedPipe
	}
	if n, err = s.w.Write(b); err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	return n, err
}

// writerFunc is a function as an [io.Writer].
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// closeWrites makes all later writes fail.
func (s *stream) closeWrites() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}
