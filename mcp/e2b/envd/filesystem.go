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

// infoOf returns an entry as the daemon tells it.
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

// change has one change of files, and returns what it left.
func (c *call) change(f inside.ChangeFile) (any, error) {
	f.Namespace, f.Session = c.Namespace, c.Target.Session
	e, _, err := pipeline.Do(c.ctx, c.pipeline, f)
	if err != nil {
		return nil, err
	}
	return &entryResponse{infoOf(e)}, nil
}

func (c *call) makeDir(q *pathRequest) (any, error) {
	return c.change(inside.ChangeFile{Op: "mkdir", Path: q.Path})
}

func (c *call) move(q *moveRequest) (any, error) {
	return c.change(inside.ChangeFile{Op: "move", Path: q.Source, To: q.Destination})
}

func (c *call) remove(q *pathRequest) (any, error) {
	_, err := c.change(inside.ChangeFile{Op: "remove", Path: q.Path})
	return &empty{}, err
}

// operations are the daemon's numbers of the agent's.
var operations = map[string]eventType{guest.Created: 1, guest.Written: 2, guest.Removed: 3, guest.Renamed: 4, guest.Chmod: 5}

func eventOf(e guest.Event) *fileEvent {
	event := &fileEvent{Name: e.Name, Type: operations[e.Op]}
	if e.Entry != nil {
		event.Entry = infoOf(*e.Entry)
	}
	return event
}

// watchDir sends the changes of a directory until the client goes.
func (c *call) watchDir(q *watchRequest) error {
	c.alive = &watchResponse{Keepalive: &empty{}}
	return inside.WatchFiles(c.ctx, c.pipeline, c.Namespace, c.Session, guest.Watch{Path: q.Path, Recursive: q.Recursive, Entries: q.IncludeEntry},
		func(func(context.Context) error) error { return c.send(&watchResponse{Start: &empty{}}) },
		func(e guest.Event) error { return c.send(&watchResponse{Filesystem: eventOf(e)}) })
}

// Bounds of watchers whose events are fetched.
const (
	maxWatchers = 64 // of one sandbox
	maxEvents   = 10_000
	maxWaiting  = 4 << 20 // bytes of one watcher's events

	caughtUpTimeout = 5 * time.Second // that a fetch waits for events of changes that were made before it, on a busy machine
)

// watcher collects the events of a directory until they are fetched.
type watcher struct {
	namespace, session string
	cancel             context.CancelFunc
	caughtUp           func(context.Context) error // of [guest.Client.Watch], set once it has begun

	mu       sync.Mutex
	taken    sync.Cond // after fetching has become less
	fetching map[*context.CancelFunc]bool
	events   []*fileEvent
	bytes    int   // of events
	err      error // why there will be no more
}

func (c *call) createWatcher(q *watchRequest) (any, error) {
	s, id := c.Server, "w"+rand.Text()
	s.sweep()
	ctx, end := identity.Lasting(c.ctx) // but no longer than the token by which it was asked for
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
		err := inside.WatchFiles(ctx, s.pipeline, c.Namespace, v.session, guest.Watch{Path: q.Path, Recursive: q.Recursive, Entries: q.IncludeEntry},
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
		return nil, c.over()
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
		return faultf(unavailable, "the server ends")
	}
	if n >= maxWatchers {
		return faultf(resourceExhausted, "the sandbox has %d watchers: remove one that is not needed", n)
	}
	s.watchers[id] = v
	s.watching.Add(1)
	return nil
}

// sweep forgets the watchers of sandboxes that have ended. Some had ended before, and nobody asked why.
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

// dropWatcher ends a watcher and forgets it.
func (s *Server) dropWatcher(id string) {
	s.mu.Lock()
	v := s.watchers[id]
	delete(s.watchers, id)
	s.mu.Unlock()
	if v != nil {
		v.cancel()
	}
}

// add keeps an event. Where there is no room, whoever fetches gets what there is, and is waited for.
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
		return faultf(resourceExhausted, "%d events were not fetched", len(v.events))
	}
	v.events, v.bytes = append(v.events, eventOf(e)), v.bytes+size
	return nil
}

// sizeOf returns about how many bytes an event takes.
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

// fetch takes the events of all changes that were made before, or as many as there is room for.
func (v *watcher) fetch(ctx context.Context) ([]*fileEvent, error) {
	ctx, enough := context.WithTimeout(ctx, caughtUpTimeout)
	defer enough()
	v.mu.Lock()
	v.fetching[&enough] = true
	v.mu.Unlock()
	v.caughtUp(ctx) // if it fails, there is no more than what is here
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
