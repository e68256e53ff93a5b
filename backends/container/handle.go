package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// initHandle is a container with our init as PID 1, idle or running programs.
type initHandle struct {
	backend *Backend
	plan    *plan
	name    string
	id      string // the engine's, "" before there is one
	dir     *runDir
	conn    *call.Conn
	peer    *peer       // PID 1, where we can see it
	stderr  engine.Tail // its standard error, where that is attached

	ended    chan struct{} // closed when the engine has reported its exit
	exit     Exit
	waitErr  error // the engine could not tell
	stopWait context.CancelFunc

	release    func() // lets the backend go on to close
	createSent bool   // the engine was asked to make it
	once       sync.Once
	removeErr  error // of removal
}

// How long an engine may take for one thing, and an init to greet, on a machine that is busy.
const (
	engineTimeout = 2 * time.Minute
	greetTimeout  = 60 * time.Second
	startTimeout  = engineTimeout + greetTimeout // of all that one container needs
)

// launch makes and starts a container, and returns when its init has greeted. id may be empty. listen requests PID 1's
// standard error.
func (b *Backend) launch(ctx context.Context, p *plan, id string, listen bool) (*initHandle, error) {
	return b.obtain(ctx, p, func(h *initHandle) error { return h.launch(ctx, id, listen) })
}

// obtain returns a container for a plan that get has made or taken. When ctx ends, obtain returns at once, and what
// there is is removed in the background.
func (b *Backend) obtain(ctx context.Context, p *plan, get func(*initHandle) error) (*initHandle, error) {
	done, err := b.keepOpen()
	if err != nil {
		return nil, err
	}
	h := &initHandle{backend: b, plan: p, name: "sandboxmcp-" + strings.ToLower(ulid.Make().String()), ended: make(chan struct{}), release: done}
	got := make(chan error)
	go func() {
		err := get(h)
		if err != nil {
			h.remove()
		}
		select {
		case got <- err:
		case <-ctx.Done():
			h.remove()
		}
	}()
	select {
	case err := <-got:
		switch {
		case err == nil:
			return h, nil
		case ctx.Err() == nil:
			return nil, fmt.Errorf("image %s with %s: %w", p.title, b.Name(), err)
		}
	case <-ctx.Done():
	}
	return nil, context.Cause(ctx)
}

// launch takes all steps up to the greeting.
func (h *initHandle) launch(ctx context.Context, id string, listen bool) (err error) {
	b, p := h.backend, h.plan
	seed := ""
	switch {
	case p.HasInit: // and needs nothing of this host
	case p.attach:
		seed, err = b.seedVolume(ctx, p.engineState, p.image)
	default:
		h.dir, err = newRunDir(p.instance, p.user, p.spec, visible(p.Info, p.spec.Limits))
	}
	if err != nil {
		return err
	}
	c := p.container(h.name, id, h.dir, seed)
	c.Stdin = c.Stdin || listen
	if err := h.create(ctx, c); err != nil {
		return err
	}
	return h.connect(ctx, c.Stdin)
}

// connect starts the container, and returns when its init has greeted.
func (h *initHandle) connect(ctx context.Context, attach bool) (err error) {
	b := h.backend
	var streams io.ReadWriteCloser
	if attach {
		if streams, err = b.engine.Attach(ctx, h.id, &h.stderr); err != nil {
			return &startError{err}
		}
	}
	if err := b.engine.Start(ctx, h.id); err != nil {
		if streams != nil {
			streams.Close()
		}
		return &startError{err}
	}
	waiting, forget := context.WithCancel(context.Background())
	h.stopWait = forget
	go func() {
		h.exit, h.waitErr = b.engine.Wait(waiting, h.id)
		close(h.ended)
	}()
	return h.handshake(ctx, streams)
}

// create makes the container, and lets the engine complete that even after ctx has ended: an engine that gives up
// half-way may leave a container whose id is not known to us.
func (h *initHandle) create(ctx context.Context, c Container) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h.createSent = true
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	h.id, err = h.backend.engine.Create(patient, c)
	h.createSent = !errors.Is(err, ErrFull)
	if err != nil {
		return &startError{err}
	}
	return nil
}

// handshake waits for the init to connect and greet.
func (h *initHandle) handshake(ctx context.Context, streams io.ReadWriteCloser) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	go func() {
		select {
		case <-h.ended:
			// Its last output may be on its way.
			time.Sleep(50 * time.Millisecond)
			cancel()
		case <-ctx.Done():
		}
	}()
	conn := streams
	if !h.plan.attach {
		stop := context.AfterFunc(ctx, func() { h.dir.listener.Close() })
		accepted, err := h.dir.accept(time.Now().Add(greetTimeout))
		stop()
		if err != nil {
			return h.handshakeError(errors.New("its init did not connect"))
		}
		if h.peer, err = peerOf(accepted, h.plan); err != nil {
			accepted.Close()
			return err
		}
		accepted.SetReadDeadline(time.Now().Add(greetTimeout))
		if conn, err = receiveConn(accepted); err != nil {
			return h.handshakeError(err)
		}
		if streams != nil {
			defer streams.Close() // the connection is the socket
		}
	}
	line, err := call.Handshake(ctx, conn)
	if err != nil {
		conn.Close()
		return h.handshakeError(fmt.Errorf("its init did not greet: %w", err))
	}
	if h.plan.attach { // the engine, or a cluster's API server, carries it
		line.SetPace(&h.backend.pace)
	}
	h.conn = line
	return nil
}

// kill ends PID 1 where we can see it, and stops asking the engine for its exit, which would hold up the removal.
func (h *initHandle) kill() {
	if h.peer != nil {
		h.stopWait()
		h.peer.kill()
	}
}

// waitDead waits until PID 1 is dead, and with it everything in the container, but no longer than within.
func (h *initHandle) waitDead(within time.Duration) bool {
	if h.peer != nil {
		return h.peer.waitDead(within)
	}
	select {
	case <-h.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// remove ends the container. When it returns, all of it is gone from the engine and the host.
func (h *initHandle) remove() error {
	h.once.Do(func() {
		defer h.release()
		if h.conn != nil {
			h.conn.Close()
		}
		if h.stopWait != nil { // questions would hold up the removal
			h.stopWait()
		}
		h.removeErr = h.dir.remove()
		h.peer.close()
		if !h.createSent {
			return
		}
		h.backend.countRemovals(1)
		defer h.backend.countRemovals(-1)
		which := cmp.Or(h.id, h.name) // the engine may have made it without an answer
		ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
		defer cancel()
		if err := h.backend.engine.Remove(ctx, which); err != nil {
			h.removeErr = errors.Join(h.removeErr, fmt.Errorf("remove container %s with %s: %w", h.name, h.backend.Name(), err))
		}
		if h.stopWait != nil {
			h.stopWait()
			<-h.ended
		}
	})
	return h.removeErr
}
