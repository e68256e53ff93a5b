package container

import (
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

// box is one container in which our init waits, or runs programs.
type box struct {
	backend *Backend
	plan    *plan
	name    string
	id      string // the engine's, "" before there is one
	folder  *folder
	line    *call.Conn
	peer    *peer       // PID 1, where we can see it
	said    engine.Tail // its standard error, where that is attached

	ended  chan struct{} // closed when the engine has told how it ended
	exit   Exit
	lost   error // the engine could not tell
	forget context.CancelFunc

	done  func() // lets the backend go on to close
	tried bool   // the engine was asked to make it
	once  sync.Once
	err   error // of removal
}

// How long an engine may take for one thing, and an init to greet, on a machine that is busy.
const (
	engineTime = 2 * time.Minute
	greetTime  = 60 * time.Second
	startTime  = engineTime + greetTime // of all that one container needs
)

// make has the engine make a container and start it, and returns when its init has greeted. id may be empty.
// listen asks for PID 1's standard error. When ctx ends, make returns at once, and what was made is removed
// in the background.
func (b *Backend) make(ctx context.Context, p *plan, id string, listen bool) (*box, error) {
	done, err := b.use()
	if err != nil {
		return nil, err
	}
	type result struct {
		box *box
		err error
	}
	made := make(chan result)
	go func() {
		x, err := b.build(ctx, p, id, listen, done)
		select {
		case made <- result{x, err}:
		case <-ctx.Done():
			if x != nil {
				x.remove()
			}
		}
	}()
	select {
	case r := <-made:
		return r.box, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b *Backend) build(ctx context.Context, p *plan, id string, listen bool, done func()) (*box, error) {
	x := &box{backend: b, plan: p, name: "sandboxmcp-" + strings.ToLower(ulid.Make().String()), ended: make(chan struct{}), done: done}
	if err := x.begin(ctx, id, listen); err != nil {
		x.remove()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("image %s with %s: %w", p.title, b.Name(), err)
	}
	return x, nil
}

// begin goes all steps up to the greeting.
func (x *box) begin(ctx context.Context, id string, listen bool) (err error) {
	b, p := x.backend, x.plan
	seed := ""
	if p.attach {
		seed, err = b.seeded(ctx, p.standing, p.image)
	} else {
		x.folder, err = newFolder(p.instance, p.user, p.spec.Trust)
	}
	if err != nil {
		return err
	}
	c := p.container(x.name, id, x.folder, seed)
	c.Stdin = c.Stdin || listen
	if err := x.create(ctx, c); err != nil {
		return err
	}
	var streams io.ReadWriteCloser
	if c.Stdin {
		if streams, err = b.engine.Attach(ctx, x.id, &x.said); err != nil {
			return err
		}
	}
	if err := b.engine.Start(ctx, x.id); err != nil {
		if streams != nil {
			streams.Close()
		}
		return &startError{err, true}
	}
	return x.greet(ctx, streams)
}

// create makes the container, and lets the engine end that even if nobody wants it any more: one that gives up
// half-way may leave it, and its id is not known to us.
func (x *box) create(ctx context.Context, c Container) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	x.tried = true
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTime)
	defer cancel()
	x.id, err = x.backend.engine.Create(patient, c)
	if err != nil {
		return &startError{err, false}
	}
	waiting, forget := context.WithCancel(context.Background())
	x.forget = forget
	go func() {
		x.exit, x.lost = x.backend.engine.Wait(waiting, x.id)
		close(x.ended)
	}()
	return nil
}

// greet waits for the init.
func (x *box) greet(ctx context.Context, streams io.ReadWriteCloser) error {
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	go func() {
		select {
		case <-x.ended:
			// What it said last may be on its way.
			time.Sleep(50 * time.Millisecond)
			cancel()
		case <-ctx.Done():
		}
	}()
	conn := streams
	if !x.plan.attach {
		stop := context.AfterFunc(ctx, func() { x.folder.listener.Close() })
		accepted, err := x.folder.accept(time.Now().Add(greetTime))
		stop()
		if err != nil {
			return x.unwell(errors.New("its init did not connect"))
		}
		if x.peer, err = peerOf(accepted, x.plan); err != nil {
			accepted.Close()
			return err
		}
		accepted.SetReadDeadline(time.Now().Add(greetTime))
		if conn, err = handed(accepted); err != nil {
			return x.unwell(err)
		}
		if streams != nil {
			defer streams.Close() // the line is the socket
		}
	}
	line, err := call.Handshake(ctx, conn)
	if err != nil {
		conn.Close()
		return x.unwell(fmt.Errorf("its init did not greet: %w", err))
	}
	x.line = line
	return nil
}

// kill ends PID 1, where we can see it: then nobody asks the engine any more how that came, which would hold up the removal.
func (x *box) kill() {
	if x.peer != nil {
		x.forget()
		x.peer.kill()
	}
}

// dead waits until PID 1 is dead, and with it all that ran in the container; but not for long.
func (x *box) dead(within time.Duration) bool {
	if x.peer != nil {
		return x.peer.dead(within)
	}
	select {
	case <-x.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// remove ends the container, and has all of it be gone from the engine and the host when it returns.
func (x *box) remove() error {
	x.once.Do(func() {
		defer x.done()
		if x.line != nil {
			x.line.Close()
		}
		if x.forget != nil { // questions would hold up the removal
			x.forget()
		}
		x.err = x.folder.remove()
		x.peer.close()
		if !x.tried {
			return
		}
		which := x.id
		if which == "" {
			which = x.name // the engine may have made it, and not told us
		}
		ctx, cancel := context.WithTimeout(context.Background(), engineTime)
		defer cancel()
		if err := x.backend.engine.Remove(ctx, which); err != nil {
			x.err = errors.Join(x.err, fmt.Errorf("remove container %s with %s: %w", x.name, x.backend.Name(), err))
		}
		if x.forget != nil {
			x.forget()
			<-x.ended
		}
	})
	return x.err
}
