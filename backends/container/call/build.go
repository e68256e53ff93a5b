package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Build has the init build a sandbox, once. A *backends.Refusal of the init arrives as one. The sandbox's Close ends
// the connection, and so does any error; a connection that ends by itself makes running calls fail with ErrLost.
func (c *Conn) Build(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	c.mu.Lock()
	used := c.used
	c.used = true
	c.mu.Unlock()
	if used {
		return nil, errors.New("a container's init builds one sandbox, and this one has")
	}
	stop := context.AfterFunc(ctx, func() { c.end(ctx.Err()) })
	defer stop()
	s, err := c.build(spec)
	if err != nil {
		c.Close()
		return nil, err
	}
	if !stop() {
		s.Close()
		return nil, ctx.Err()
	}
	return s, nil
}

// Prepare has the init prepare for the sandbox that Build will probably ask for. It must precede Build, and does not
// wait.
func (c *Conn) Prepare(spec backends.Spec) error {
	if err := checkEncodable(spec); err != nil {
		return err
	}
	return write(c.rwc, build{Spec: spec, PrepareOnly: true}, maxServerMessage)
}

// checkEncodable refuses a specification that JSON would change.
func checkEncodable(spec backends.Spec) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode what is to be built: %w", err)
	}
	var back backends.Spec
	if err := json.Unmarshal(text, &back); err != nil {
		return fmt.Errorf("encode what is to be built: %w", err)
	}
	if again, err := json.Marshal(back); err != nil || !bytes.Equal(text, again) || !reflect.DeepEqual(spec.Mounts, back.Mounts) || spec.Workspace != back.Workspace {
		return errors.New("a name in what is to be built is not UTF-8")
	}
	return nil
}

func (c *Conn) build(spec backends.Spec) (*sandbox, error) {
	if err := checkEncodable(spec); err != nil {
		return nil, err
	}
	if err := write(c.rwc, build{Spec: spec}, maxServerMessage); errors.Is(err, errLong) {
		return nil, fmt.Errorf("tell the container's init what to build: %w", err)
	} else if err != nil {
		return nil, c.lostError(err)
	}
	var a answer
	select {
	case a = <-c.answered:
	case <-c.done:
		return nil, c.lostError(nil)
	}
	if a.err != nil {
		return nil, a.err
	}
	b := a.built
	if b.Failure != nil {
		return nil, b.Failure.err()
	}
	if b.Listeners != len(spec.Listen) || b.Gateway != spec.Resolves() || b.Ports != len(spec.Gateway) {
		closeAll(a.socks)
		return nil, c.protocolError("it has %d listeners and %d ports, and was asked for %d and %d", b.Listeners, b.Ports, len(spec.Listen), len(spec.Gateway))
	}
	s := &sandbox{conn: c, wall: spec.Limits.WithDefaults().Wall, spec: spec, socks: a.socks}
	return s, c.startSession(s, !b.Descriptors)
}

// startSession opens the stream session. Sockets that did not come as descriptors become remote ones.
func (c *Conn) startSession(s *sandbox, remoteSockets bool) error {
	c.mu.Lock()
	session, err := newServerSession(c.rwc)
	c.session = session
	c.mu.Unlock()
	if err != nil {
		s.closeSockets()
		return fmt.Errorf("begin with streams: %w", err)
	}
	select {
	case <-c.done: // and end may not have seen the session
		session.Close()
	default:
	}
	if remoteSockets {
		if err := s.makeRemoteSockets(); err != nil {
			s.closeSockets()
			return err
		}
	}
	c.mu.Lock()
	c.accepting = true
	c.mu.Unlock()
	c.work.Go(func() {
		c.endWith(s.accept(session))
		s.closeSockets()
	})
	return nil
}
