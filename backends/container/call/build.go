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

// Build has the init build a sandbox, once. A *backends.Refusal of the init's arrives as one. The
// sandbox's Close ends the line, and so does any error; a line that ends by itself makes what is under way
// fail with ErrLost.
func (l *Line) Build(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	l.mu.Lock()
	used := l.used
	l.used = true
	l.mu.Unlock()
	if used {
		return nil, errors.New("a container's init builds one sandbox, and this one has")
	}
	stop := context.AfterFunc(ctx, func() { l.end(ctx.Err()) })
	defer stop()
	s, err := l.build(spec)
	if err != nil {
		l.Close()
		return nil, err
	}
	if !stop() {
		s.Close()
		return nil, ctx.Err()
	}
	return s, nil
}

// Prepare has the init prepare for a sandbox as Build will probably ask for. It comes before that, and does not wait.
func (l *Line) Prepare(spec backends.Spec) error {
	if err := travels(spec); err != nil {
		return err
	}
	return write(l.conn, build{Spec: spec, Ahead: true}, mostFromServer)
}

// travels refuses a spec that would arrive as another.
func travels(spec backends.Spec) error {
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

func (l *Line) build(spec backends.Spec) (*sandbox, error) {
	if err := travels(spec); err != nil {
		return nil, err
	}
	if err := write(l.conn, build{Spec: spec}, mostFromServer); errors.Is(err, errLong) {
		return nil, fmt.Errorf("tell the container's init what to build: %w", err)
	} else if err != nil {
		return nil, l.lost(err)
	}
	var a answer
	select {
	case a = <-l.answer:
	case <-l.gone:
		return nil, l.lost(nil)
	}
	if a.err != nil {
		return nil, a.err
	}
	b := a.built
	if b.Failure != nil {
		return nil, b.Failure.err()
	}
	if b.Listeners != len(spec.Listen) || b.Gateway != spec.Resolves() || b.Doors != len(spec.Gateway) {
		closeAll(a.socks)
		return nil, l.breach("it has %d listeners and %d doors, and was asked for %d and %d", b.Listeners, b.Doors, len(spec.Listen), len(spec.Gateway))
	}
	s := &sandbox{line: l, wall: spec.Limits.WithDefaults().Wall, spec: spec, socks: a.socks}
	return s, l.open(s, !b.Handed)
}

// open begins with streams. Sockets that were not handed over are far away.
func (l *Line) open(s *sandbox, away bool) error {
	l.mu.Lock()
	session, err := atServer(l.conn)
	l.session = session
	l.mu.Unlock()
	if err != nil {
		s.shut()
		return fmt.Errorf("begin with streams: %w", err)
	}
	select {
	case <-l.gone: // and end may not have seen the session
		session.Close()
	default:
	}
	if away {
		if err := s.reach(); err != nil {
			s.shut()
			return err
		}
	}
	l.mu.Lock()
	l.accepting = true
	l.mu.Unlock()
	l.work.Go(func() {
		l.over(s.accept(session))
		s.shut()
	})
	return nil
}
