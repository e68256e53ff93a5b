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

// served is the init's side of a line.
type served struct {
	box     backends.Sandbox
	session *yamux.Session
	listing listing
	work    sync.WaitGroup

	mu    sync.Mutex
	parts map[uint32]*yamux.Stream // that no command has taken yet
	came  chan struct{}            // closed and made anew when one comes
}

// Serve is the init's side. It greets, has ahead prepare for what may be built if it is told that, waits for what is to be built, has
// start build it, serves it, and returns when the connection has ended and the sandbox is closed. An end of ctx closes the connection,
// which must end a Read and a Write that wait.
func Serve(ctx context.Context, conn io.ReadWriteCloser, facts Facts, ahead func(backends.Spec), start func(context.Context, backends.Spec) (backends.Sandbox, error)) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := write(conn, greeting{version, facts}, mostFromInit); err != nil {
		return err
	}
	var b build
	for {
		b = build{} // what the last message had and this one has not is not to stay
		if err := read(conn, &b, mostFromServer); errors.Is(err, io.EOF) {
			return nil // it was not needed
		} else if err != nil {
			return err
		}
		if !b.Ahead {
			break
		}
		ahead(b.Spec)
	}
	box, err := start(ctx, b.Spec)
	if err != nil {
		return write(conn, built{Failure: failureOf(err)}, mostFromInit)
	}
	s := &served{box: box, parts: map[uint32]*yamux.Stream{}, came: make(chan struct{})}
	defer s.work.Wait()
	defer box.Close()
	handed, err := hand(conn, box)
	if err != nil {
		return err
	}
	_, local := conn.(*net.UnixConn)
	if s.session, err = atInit(conn, local); err != nil {
		return err
	}
	defer s.session.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !handed {
		s.relay()
	}
	for {
		stream, err := s.session.AcceptStream()
		if err != nil {
			return nil
		}
		s.work.Go(func() { s.serve(ctx, stream) })
	}
}

// hand says that it was built, and gives the sockets away where that can be done.
func hand(conn io.ReadWriteCloser, box backends.Sandbox) (handed bool, err error) {
	g := box.Gateway()
	unix, handed := passes(conn)
	b := built{Handed: handed, Listeners: len(box.Listeners()), Gateway: g.DNS != nil, Doors: len(g.Ports)}
	if err := write(conn, b, mostFromInit); err != nil || !handed {
		return handed, err
	}
	for _, socket := range sockets(box) {
		if err := pass(unix, socket); err != nil {
			return handed, err
		}
		socket.close()
	}
	return handed, nil
}

// serve does what a stream asks for.
func (s *served) serve(ctx context.Context, stream *yamux.Stream) {
	var q request
	if read(stream, &q, mostFromServer) != nil {
		stream.Close()
		return
	}
	if q.Op == opPart {
		s.keep(stream)
		return
	}
	defer stream.Close()
	var m said
	switch {
	case q.Op == opExec && q.Exec != nil:
		s.exec(ctx, stream, *q.Exec)
		return
	case q.Op == opEach:
		s.each(ctx, stream)
		return
	case q.Op == opOpen && q.Open != nil:
		s.open(ctx, stream, *q.Open)
		return
	case q.Op == opPackets && s.box.Gateway().DNS != nil:
		s.packets(stream, s.box.Gateway().DNS)
		return
	case q.Op == opPut && q.Put != nil:
		m.Failure = failureOf(s.box.Files().Put(string(q.Put.Name), q.Put.Mode, &unchunk{from: stream}))
	case q.Op == opClose:
		m.Failure = failureOf(s.box.Close())
	case q.Op == opUsage:
		u := s.box.Usage()
		m.Usage = &u
	case q.Op == opLimit && q.Limit != nil:
		l, err := s.box.Limit(*q.Limit)
		m.Limits, m.Failure = &l, failureOf(err)
	default:
		m.Failure = &failure{Text: "the container's init can't do that: this is our bug"}
	}
	write(stream, m, mostFromInit)
}

// keep keeps a part until its command takes it.
func (s *served) keep(stream *yamux.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[stream.StreamID()] = stream
	close(s.came)
	s.came = make(chan struct{})
}

// take returns a part, once it is there.
func (s *served) take(ctx context.Context, id uint32) (*yamux.Stream, error) {
	for {
		s.mu.Lock()
		stream, came := s.parts[id], s.came
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
