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
	id      string // the engine's, "" before creation
	dir     *runDir
	conn    *call.Conn
	peer    *peer       // PID 1, if it is visible here
	stderr  engine.Tail // its standard error, if attached

	ended    chan struct{} // closed when the engine has reported the exit
	exit     Exit
	waitErr  error // why the engine could not report the exit
	stopWait context.CancelFunc

	release    func() // lets Backend.Close continue
	createSent bool   // the engine was asked to create it
	once       sync.Once
	removeErr  error // error of the removal
}

// Timeouts on a busy machine, of one engine call and of the init's greeting.
const (
	engineTimeout = 2 * time.Minute
	greetTimeout  = 60 * time.Second
	startTimeout  = engineTimeout + greetTimeout // of all steps for one container
)

// launch creates and starts a container, and returns after its init's greeting. id may be empty. listen requests
// PID 1's standard error.
func (b *Backend) launch(ctx context.Context, p *plan, id string, listen bool) (*initHandle, error) {
	return b.obtain(ctx, p, func(h *initHandle) error { return h.launch(ctx, id, listen) })
}

// obtain returns a container for a plan from get, which creates or leases it. When ctx ends, obtain returns at
// once, and removes the container in the background.
func (b *Backend) obtain(ctx context.Context, p *plan, get func(*initHandle) error) (*initHandle, error) {
	done, err := b.keepOpen()
	if err != nil {
		return nil, err
	}
	h := &initHandle{backend: b, plan: p, name: "sandboxmcp-" + strings.ToLower(ulid.Make().String()), ended: make(chan struct{}),
		release: done}
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

// launch performs all steps up to the greeting.
func (h *initHandle) launch(ctx context.Context, id string, listen bool) (err error) {
	b, p := h.backend, h.plan
	seed := ""
	switch {
	case p.HasInit: // needs no file of this host
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

// connect starts the container, and returns after its init's greeting.
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

// create creates the container, and lets the engine finish that even after ctx has ended: an engine that gives up
// halfway may leave a container whose id we don't know.
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
			// The last output may still be on its way.
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
			defer streams.Close() // the socket is the connection
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

// kill ends PID 1 if it is visible here, and cancels the pending Wait, which would delay the removal.
func (h *initHandle) kill() {
	if h.peer != nil {
		h.stopWait()
		h.peer.kill()
	}
}

// waitDead waits at most within for the death of PID 1, and with it of everything in the container.
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

// remove ends the container. When it returns, nothing of it is left on the engine and the host.
func (h *initHandle) remove() error {
	h.once.Do(func() {
		defer h.release()
		if h.conn != nil {
			h.conn.Close()
		}
		if h.stopWait != nil { // a pending Wait would delay the removal
			h.stopWait()
		}
		h.removeErr = h.dir.remove()
		h.peer.close()
		if !h.createSent {
			return
		}
		h.backend.countRemovals(1)
		defer h.backend.countRemovals(-1)
		which := cmp.Or(h.id, h.name) // the engine may have created it without an answer
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
