package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// session is a layer that one session has for itself. Unlike a generation it changes while sandboxes show it: an
// installed package is there for the next import.
type session struct {
	namespace, language, kind string

	dir     string // of the layer
	dropped chan struct{}
	busy    chan struct{} // holds one value while somebody fills it, installs or removes
}

// OpenSession makes a session's own layer out of the namespace's, and returns its view. The caller
// ends it with DropSession.
func (s *Store) OpenSession(ctx context.Context, b backends.Backend, namespace, id, language string) (View, error) {
	none := View{Release: func() {}}
	if _, ok := tools[language]; !ok {
		return none, nil
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return none, err
	}
	defer end()
	name, err := dirName("session", id)
	if err != nil {
		return none, err
	}
	if _, err := dirName("namespace", namespace); err != nil {
		return none, err
	}
	kind, err := s.kind(ctx, b, language)
	if err != nil {
		return none, err
	}
	home, err := s.home()
	if err != nil {
		return none, err
	}
	ses := &session{namespace: namespace, language: language, kind: kind,
		dir: filepath.Join(home, name), dropped: make(chan struct{}), busy: make(chan struct{}, 1)}
	s.mu.Lock()
	_, taken := s.sessions[id]
	if !taken {
		s.sessions[id] = ses
	}
	s.mu.Unlock()
	if taken {
		return none, fmt.Errorf("open the packages of session %s: they are open already", id)
	}
	ses.busy <- struct{}{}
	err = s.fill(ses)
	<-ses.busy
	if err != nil {
		s.DropSession(id)
		return none, fmt.Errorf("open the packages of session %s: %w", id, err)
	}
	return s.viewSession(namespace, id, language)
}

// fill makes the session's directory, with the files of the namespace's layer.
func (s *Store) fill(ses *session) (err error) {
	if err := os.Mkdir(ses.dir, 0o700); err != nil {
		return err
	}
	l := layer{dir: ses.dir, files: map[string]file{}}
	b, err := newBuilder(l.content())
	if err != nil {
		return err
	}
	for _, dir := range tools[ses.language].directories() {
		if err := b.mkdir(dir); err != nil {
			return err
		}
	}
	sh, err := s.layersOf(ses.namespace, ses.kind)
	if err != nil {
		return err
	}
	name, held, err := sh.hold()
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close()
		base, err := load(sh.join(name))
		if err != nil {
			return err
		}
		if err := b.link(base.content(), base.files); err != nil {
			return err
		}
		l.packages, l.files = base.packages, base.files
	}
	_, err = l.save()
	return err
}

// home returns the directory of this server's sessions, made when it is first needed. Its lock is held until Close: other servers
// remove those whose lock nobody holds.
func (s *Store) home() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.held == nil {
		dir, err := os.MkdirTemp(s.sessionsDir(), "")
		if err != nil {
			return "", err
		}
		// None without an error, and none that is there: a sweep came first.
		if s.held, err = lock(filepath.Join(dir, "lock"), true, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return filepath.Dir(s.held.Name()), nil
}

// session returns a session that was opened here, for its own namespace and language only.
func (s *Store) session(namespace, id, language string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses, ok := s.sessions[id]
	if !ok || ses.namespace != namespace || ses.language != language {
		return nil, fmt.Errorf("there are no %s packages of a session %q in namespace %q", language, shorten(id), shorten(namespace))
	}
	return ses, nil
}

// viewSession returns the view of a session's layer. Its Release does nothing: DropSession ends the layer.
func (s *Store) viewSession(namespace, id, language string) (View, error) {
	ses, err := s.session(namespace, id, language)
	if err != nil {
		return View{Release: func() {}}, err
	}
	v := tools[language].show(layer{dir: ses.dir}.content())
	v.Release = func() {}
	return v, nil
}

// DropSession removes a session's layer, and ends an install into it. An unknown session is no error.
func (s *Store) DropSession(id string) error {
	s.mu.Lock()
	ses, ok := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	close(ses.dropped)
	ses.busy <- struct{}{} // for good
	if err := os.RemoveAll(ses.dir); err != nil {
		return fmt.Errorf("remove the packages of session %s: %w", id, err)
	}
	return nil
}

// sweepSessions removes the directories of servers that are gone.
func (s *Store) sweepSessions() {
	all, _ := filepath.Glob(filepath.Join(s.sessionsDir(), "*"))
	for _, dir := range all {
		// Made here, because a server may have died between making the directory and the lock in it.
		f, err := lock(filepath.Join(dir, "lock"), true, true)
		if f == nil || err != nil {
			continue
		}
		os.RemoveAll(dir)
		f.Close()
	}
}

// renew changes the files of a session's layer to those of next, by moving the fresh ones from stage,
// while sandboxes see it. Each file changes at once; nothing here needs more room on the disk.
func renew(live layer, stage string, next layer, fresh map[string]file) error {
	for name := range live.files {
		if _, stays := next.files[name]; !stays {
			if err := os.Remove(filepath.Join(live.content(), name)); err != nil {
				return err
			}
			removeEmpty(live.content(), filepath.Dir(name))
		}
	}
	b, err := newBuilder(live.content())
	if err != nil {
		return err
	}
	for name, f := range fresh {
		if live.files[name] == f {
			continue
		}
		if err := b.mkdir(filepath.Dir(name)); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(stage, name), filepath.Join(live.content(), name)); err != nil {
			return err
		}
	}
	return nil
}

// removeEmpty removes directories that hold nothing any more, from dir up, but none that a view mounts.
func removeEmpty(root, dir string) {
	for ; dir != "." && dir != "node_modules"; dir = filepath.Dir(dir) {
		if os.Remove(filepath.Join(root, dir)) != nil {
			return
		}
	}
}
