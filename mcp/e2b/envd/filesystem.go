package envd

import (
	"context"
	"crypto/rand"
	"maps"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// infoOf converts an entry to the daemon's format.
func infoOf(e guest.Entry) *entryInfo {
	info := &entryInfo{
		Name: e.Name, Path: e.Path, Size: e.Size, Mode: e.Mode, Permissions: e.Text, Owner: e.Owner, Group: e.Group,
		Modified: newTimestamp(e.Modified), Metadata: e.Metadata,
	}
	info.Type = map[string]fileType{guest.File: typeFile, guest.Directory: typeDirectory, guest.Symlink: typeSymlink}[e.Kind]
	if e.Target != "" {
		info.Target = &e.Target
	}
	return info
}

func (c *call) stat(q *pathRequest) (any, error) {
	e, err := inside.StatFile(c.ctx, c.pipeline, c.Namespace, c.Session, q.Path)
	if err != nil {
		return nil, err
	}
	return &entryResponse{infoOf(e)}, nil
}

func (c *call) listDir(q *listDirRequest) (any, error) {
	all, release, err := inside.ListFiles(c.ctx, c.pipeline, c.Namespace, c.Session, q.Path, int(max(1, q.Depth)))
	if err != nil {
		return nil, err
	}
	defer release()
	var list listDirResponse
	for _, e := range all {
		list.Entries = append(list.Entries, infoOf(e))
	}
	return &list, nil
}

// changeFile makes one change to files, and returns the resulting entry.
func (c *call) changeFile(f inside.ChangeFile) (any, error) {
	f.Namespace, f.Session = c.Namespace, c.Target.Session
	e, _, err := pipeline.Do(c.ctx, c.pipeline, f)
	if err != nil {
		return nil, err
	}
	return &entryResponse{infoOf(e)}, nil
}

func (c *call) makeDir(q *pathRequest) (any, error) {
	return c.changeFile(inside.ChangeFile{Op: "mkdir", Path: q.Path})
}

func (c *call) move(q *moveRequest) (any, error) {
	return c.changeFile(inside.ChangeFile{Op: "move", Path: q.Source, To: q.Destination})
}

func (c *call) remove(q *pathRequest) (any, error) {
	_, err := c.changeFile(inside.ChangeFile{Op: "remove", Path: q.Path})
	return &empty{}, err
}

// operations are the daemon's numbers for the agent's operations.
var operations = map[string]eventType{guest.Created: 1, guest.Written: 2, guest.Removed: 3, guest.Renamed: 4, guest.Chmod: 5}

func eventOf(e guest.Event) *fileEvent {
	event := &fileEvent{Name: e.Name, Type: operations[e.Op]}
	if e.Entry != nil {
		event.Entry = infoOf(*e.Entry)
	}
	return event
}

// watchDir sends the changes in a directory until the client disconnects.
func (c *call) watchDir(q *watchRequest) error {
	c.keepalive = &watchResponse{Keepalive: &empty{}}
	return inside.WatchFiles(c.ctx, c.pipeline, c.Namespace, c.Session, guest.Watch{Path: q.Path, Recursive: q.Recursive,
		Entries: q.IncludeEntry},
		func(func(context.Context) error) error { return c.send(&watchResponse{Start: &empty{}}) },
		func(e guest.Event) error { return c.send(&watchResponse{Filesystem: eventOf(e)}) })
}

// Bounds of watchers with fetched events.
const (
	maxWatchers = 64 // of one sandbox
	maxEvents   = 10_000
	maxWaiting  = 4 << 20 // bytes of one watcher's events

	caughtUpTimeout = 5 * time.Second // how long a fetch waits for the events of earlier changes, on a busy machine
)

// watcher buffers the events of a directory until they are fetched.
type watcher struct {
	namespace, session string
	cancel             context.CancelFunc
	caughtUp           func(context.Context) error // of [guest.Client.Watch], set once it has started

	mu       sync.Mutex
	taken    sync.Cond // signalled when fetching has shrunk
	fetching map[*context.CancelFunc]bool
	events   []*fileEvent
	bytes    int   // of events
	err      error // why there are no more events
}

func (c *call) createWatcher(q *watchRequest) (any, error) {
	s, id := c.Server, "w"+rand.Text()
	s.sweep()
	ctx, end := identity.WithoutRequest(c.ctx) // but no longer than the token of its creator
	cancel := func() { end(nil) }
	stop := context.AfterFunc(s.life, cancel)
	v := &watcher{namespace: c.Namespace, session: c.Target.Session, cancel: cancel, fetching: map[*context.CancelFunc]bool{}}
	v.taken.L = &v.mu
	if err := s.addWatcher(id, v); err != nil {
		cancel()
		return nil, err
	}
	begun, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer s.watching.Done()
		defer stop()
		defer cancel()
		err := inside.WatchFiles(ctx, s.pipeline, c.Namespace, v.session, guest.Watch{Path: q.Path, Recursive: q.Recursive,
			Entries: q.IncludeEntry},
			func(caughtUp func(context.Context) error) error {
				v.caughtUp = caughtUp
				close(begun)
				return nil
			}, v.add)
		v.finish(err)
		if _, gone := session.UsageOf(s.pipeline, c.Namespace, v.session); gone != nil {
			s.dropWatcher(id)
		}
		failed <- err
	}()
	select {
	case <-begun:
		return &watcherID{id}, nil
	case err := <-failed:
		s.dropWatcher(id)
		if err == nil {
			err = faultf(notFound, "the directory is gone")
		}
		return nil, err
	case <-c.ctx.Done():
		s.dropWatcher(id)
		return nil, c.contextFault()
	}
}

func (s *Server) addWatcher(id string, v *watcher) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, other := range s.watchers {
		if other.session == v.session {
			n++
		}
	}
	if s.closed {
		return faultf(unavailable, "the server is shutting down")
	}
	if n >= maxWatchers {
		return faultf(resourceExhausted, "the sandbox has %d watchers, the maximum: remove one", n)
	}
	s.watchers[id] = v
	s.watching.Add(1)
	return nil
}

// sweep removes the watchers of ended sandboxes.
func (s *Server) sweep() {
	s.mu.Lock()
	all := maps.Clone(s.watchers)
	s.mu.Unlock()
	for id, v := range all {
		if info, err := session.InfoOf(s.pipeline, v.namespace, v.session); err != nil || info.State == "dead" {
			s.dropWatcher(id)
		}
	}
}

// dropWatcher ends and removes a watcher.
func (s *Server) dropWatcher(id string) {
	s.mu.Lock()
	v := s.watchers[id]
	delete(s.watchers, id)
	s.mu.Unlock()
	if v != nil {
		v.cancel()
	}
}

// add buffers an event. If the buffer is full, it ends waiting fetches and waits for them.
func (v *watcher) add(e guest.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	size := sizeOf(e)
	full := func() bool { return len(v.events) >= maxEvents || v.bytes+size > maxWaiting }
	for full() && len(v.fetching) > 0 {
		for enough := range v.fetching {
			(*enough)()
		}
		v.taken.Wait()
	}
	if full() {
		return faultf(resourceExhausted, "%d events are unfetched, the maximum", len(v.events))
	}
	v.events, v.bytes = append(v.events, eventOf(e)), v.bytes+size
	return nil
}

// sizeOf returns the approximate bytes of an event.
func sizeOf(e guest.Event) int {
	size := 64 + len(e.Name)
	if e.Entry != nil {
		size += 256 + len(e.Entry.Name) + len(e.Entry.Path) + len(e.Entry.Target) + len(e.Entry.Owner) + len(e.Entry.Group)
		for k, v := range e.Entry.Metadata {
			size += 32 + len(k) + len(v)
		}
	}
	return size
}

func (v *watcher) finish(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err = err; err == nil {
		v.err = faultf(notFound, "the directory is gone")
	}
}

// watcherOf returns a watcher of this sandbox.
func (c *call) watcherOf(id string) (*watcher, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.watchers[id]; v != nil && v.session == c.Target.Session {
		return v, nil
	}
	return nil, faultf(notFound, "watcher with id %.64s not found", id)
}

func (c *call) watcherEvents(q *watcherID) (any, error) {
	v, err := c.watcherOf(q.ID)
	if err != nil {
		return nil, err
	}
	events, err := v.fetch(c.ctx)
	if err != nil && len(events) == 0 {
		return nil, err
	}
	return &watcherEvents{events}, nil
}

// fetch removes and returns the events of all earlier changes, or as many as there is room for.
func (v *watcher) fetch(ctx context.Context) ([]*fileEvent, error) {
	ctx, enough := context.WithTimeout(ctx, caughtUpTimeout)
	defer enough()
	v.mu.Lock()
	v.fetching[&enough] = true
	v.mu.Unlock()
	v.caughtUp(ctx) // on failure, the buffered events are all there are
	v.mu.Lock()
	defer v.mu.Unlock()
	events := v.events
	v.events, v.bytes = nil, 0
	delete(v.fetching, &enough)
	v.taken.Signal()
	return events, v.err
}

func (c *call) removeWatcher(q *watcherID) (any, error) {
	if _, err := c.watcherOf(q.ID); err != nil {
		return nil, err
	}
	c.dropWatcher(q.ID)
	return &empty{}, nil
}
