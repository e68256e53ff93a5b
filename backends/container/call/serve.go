package call

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// service is the init's end of a connection.
type service struct {
	sandbox backends.Sandbox
	session *yamux.Session
	listing listing
	work    sync.WaitGroup

	mu        sync.Mutex
	parts     map[uint32]*yamux.Stream // that no command has taken yet
	partAdded chan struct{}            // closed and made anew when one comes
}

// Serve runs the init's end. It greets, calls prepare for each specification that it is to prepare for, has start build
// the sandbox that the server asks for, serves it, and returns when the connection has ended and the sandbox is closed.
// An end of ctx closes the connection, which must end a Read and a Write that wait.
func Serve(ctx context.Context, conn io.ReadWriteCloser, facts Facts, prepare func(backends.Spec), start func(context.Context, backends.Spec) (backends.Sandbox, error)) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := write(conn, greeting{version, facts}, maxInitMessage); err != nil {
		return err
	}
	var b build
	for {
		b = build{} // decoding into the last one would keep its fields
		if err := read(conn, &b, maxServerMessage); errors.Is(err, io.EOF) {
			return nil // it was not needed
		} else if err != nil {
			return err
		}
		if !b.PrepareOnly {
			break
		}
		prepare(b.Spec)
	}
	sandbox, err := start(ctx, b.Spec)
	if err != nil {
		return write(conn, built{Failure: failureOf(err)}, maxInitMessage)
	}
	s := &service{sandbox: sandbox, parts: map[uint32]*yamux.Stream{}, partAdded: make(chan struct{})}
	defer s.work.Wait()
	defer sandbox.Close()
	sent, err := answerBuilt(conn, sandbox)
	if err != nil {
		return err
	}
	_, local := conn.(*net.UnixConn)
	if s.session, err = newInitSession(conn, local); err != nil {
		return err
	}
	defer s.session.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !sent {
		s.relayConns()
	}
	for {
		stream, err := s.session.AcceptStream()
		if err != nil {
			return nil
		}
		s.work.Go(func() { s.handle(ctx, stream) })
	}
}

// answerBuilt reports that the sandbox was built, and sends its sockets where descriptors can be sent.
func answerBuilt(conn io.ReadWriteCloser, sandbox backends.Sandbox) (sent bool, err error) {
	g := sandbox.Gateway()
	unix, sent := unixConn(conn)
	b := built{Descriptors: sent, Listeners: len(sandbox.Listeners()), Gateway: g.DNS != nil, Ports: len(g.Ports)}
	if err := write(conn, b, maxInitMessage); err != nil || !sent {
		return sent, err
	}
	for _, socket := range sockets(sandbox) {
		if err := sendSocket(unix, socket); err != nil {
			return sent, err
		}
		socket.close()
	}
	return sent, nil
}

// handle serves one request.
func (s *service) handle(ctx context.Context, stream *yamux.Stream) {
	var q request
	if read(stream, &q, maxServerMessage) != nil {
		stream.Close()
		return
	}
	if q.Op == opPart {
		s.addPart(stream)
		return
	}
	defer stream.Close()
	var m response
	switch {
	case q.Op == opExec && q.Exec != nil:
		s.runCommand(ctx, stream, *q.Exec)
		return
	case q.Op == opEach:
		s.listFiles(ctx, stream)
		return
	case q.Op == opOpen && q.Open != nil:
		s.openFile(ctx, stream, *q.Open)
		return
	case q.Op == opPackets && s.sandbox.Gateway().DNS != nil:
		s.relayPackets(stream, s.sandbox.Gateway().DNS)
		return
	case q.Op == opPut && q.Put != nil:
		m.Failure = failureOf(s.sandbox.Files().Put(string(q.Put.Name), q.Put.Mode, &chunkReader{from: stream}))
	case q.Op == opClose:
		m.Failure = failureOf(s.sandbox.Close())
	case q.Op == opUsage:
		u := s.sandbox.Usage()
		m.Usage = &u
	case q.Op == opLimit && q.Limit != nil:
		l, err := s.sandbox.Limit(*q.Limit)
		m.Limits, m.Failure = &l, failureOf(err)
	default:
		m.Failure = &failure{Text: "the container's init can't do that: this is our bug"}
	}
	write(stream, m, maxInitMessage)
}

// addPart stores a part until its command takes it.
func (s *service) addPart(stream *yamux.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[stream.StreamID()] = stream
	close(s.partAdded)
	s.partAdded = make(chan struct{})
}

// takePart returns a part once it has arrived.
func (s *service) takePart(ctx context.Context, id uint32) (*yamux.Stream, error) {
	for {
		s.mu.Lock()
		stream, came := s.parts[id], s.partAdded
		delete(s.parts, id)
		s.mu.Unlock()
		if stream != nil {
			return stream, nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
