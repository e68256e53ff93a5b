package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// session is a session's own layer. Unlike others, it changes while sandboxes show it: an installed package is
// available to the next import.
type session struct {
	namespace, language, kind string

	layer layer // without the description, which changes
	held  *os.File
	open  context.Context // ends with errDropped
	drop  context.CancelCauseFunc
	busy  chan struct{} // holds one value during an install or the removal
}

// errDropped ends an install whose session ends.
var errDropped = errors.New("the session is closed")

// OpenSession creates a session's own layer from the namespace's, and returns its view. The caller ends it with
// DropSession.
func (s *Store) OpenSession(ctx context.Context, b backends.Backend, namespace, id, language string) (View, error) {
	none := View{Release: func() {}}
	if _, ok := managers()[language]; !ok {
		return none, nil
	}
	ctx, end, err := s.startWork(ctx)
	if err != nil {
		return none, err
	}
	defer end()
	kind, err := s.kind(ctx, b, language)
	if err != nil {
		return none, err
	}
	in, err := s.layersOf(namespace, kind)
	if err != nil {
		return none, err
	}
	ses := &session{namespace: namespace, language: language, kind: kind, busy: make(chan struct{}, 1)}
	ses.open, ses.drop = context.WithCancelCause(context.WithoutCancel(ctx))
	ses.layer, ses.held, err = s.sessionLayers().add(managers()[language].directory)
	if err == nil {
		err = ses.fill(in)
	}
	if err == nil {
		s.mu.Lock()
		if s.sessions[id] != nil {
			err = errors.New("they are open already")
		} else {
			s.sessions[id] = ses
		}
		s.mu.Unlock()
	}
	if err != nil {
		ses.held.Close() // nil is valid
		s.sessionLayers().prune()
		return none, fmt.Errorf("open the packages of session %s: %w", id, err)
	}
	return ses.layer.view(language), nil
}

// fill copies the files of the namespace's layer into the session's.
func (ses *session) fill(from layers) error {
	base, held, err := from.base()
	defer held.Close() // nil is valid
	if err != nil {
		return err
	}
	l := layer{ses.layer.dir, base.Packages, base.Files}
	return cmp.Or(l.link(base, base.Files), l.save())
}

// session returns an open session, only for its own namespace and language.
func (s *Store) session(namespace, id, language string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses, ok := s.sessions[id]
	if !ok || ses.namespace != namespace || ses.language != language {
		return nil, fmt.Errorf("session %[2]q in namespace %[3]q has no %[1]s packages", language, shorten(id), shorten(namespace))
	}
	return ses, nil
}

// DropSession removes a session's layer, and ends an install into it. An unknown session is not an error.
func (s *Store) DropSession(id string) error {
	s.mu.Lock()
	ses, ok := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	ses.drop(errDropped)
	ses.busy <- struct{}{} // permanently
	defer ses.held.Close()
	if err := os.RemoveAll(ses.layer.dir); err != nil {
		return fmt.Errorf("remove the packages of session %s: %w", id, err)
	}
	return nil
}

// renew changes the files of a session's layer to those of next, by moving the fresh ones from there, while sandboxes
// see it. Each file changes atomically, and no additional disk space is needed.
func renew(live, next layer, fresh map[string]file) error {
	for name := range live.Files {
		if _, stays := next.Files[name]; !stays {
			if err := os.Remove(filepath.Join(live.content(), name)); err != nil {
				return err
			}
			removeEmpty(live.content(), filepath.Dir(name))
		}
	}
	for name, f := range fresh {
		if live.Files[name] == f {
			continue
		}
		to := filepath.Join(live.content(), name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(next.content(), name), to); err != nil {
			return err
		}
	}
	return nil
}

// removeEmpty removes empty directories, from dir upwards, but none that a view mounts.
func removeEmpty(root, dir string) {
	for ; dir != "." && dir != "node_modules"; dir = filepath.Dir(dir) {
		if os.Remove(filepath.Join(root, dir)) != nil {
			return
		}
	}
}
