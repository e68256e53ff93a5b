package packages

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends"
)

// layers is the directory of a namespace for one kind of interpreter (see kind), or that of all sessions. It holds
//
//	lock       held during an install
//	current    the name of the layer that new sandboxes see, and its hash; sessions have none
//	layer-...  layers, each with a lock that the views, the session and the install that use it share. Layers that
//	           nobody holds, and that are not current, are rubbish, including those of killed servers
type layers string

const layerPrefix = "layer-"

func (s layers) join(name string) string { return filepath.Join(string(s), name) }

// layersOf returns the directory of a namespace for a kind of interpreter, which may not exist.
func (s *Store) layersOf(namespace, kind string) (layers, error) {
	dir, err := dirName(namespace)
	return layers(filepath.Join(s.cfg.Dir, "namespaces", dir, kind)), err
}

// sessionLayers returns the directory of the layers of sessions.
func (s *Store) sessionLayers() layers { return layers(filepath.Join(s.cfg.Dir, "sessions")) }

// current returns the name and the hash of the layer for new sandboxes, "" if there is none.
func (s layers) current() (name, hash string, err error) {
	b, err := os.ReadFile(s.join("current"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	name, hash, _ = strings.Cut(string(b), " ")
	return name, hash, err
}

// lockCurrent locks the current layer against removal, until the file is closed. A nil file without an error means
// that there is no layer; the returned one is empty.
func (s layers) lockCurrent() (l layer, hash string, held *os.File, err error) {
	for range 100 { // each retry means that another layer became current and this one was removed
		name, hash, err := s.current()
		if name == "" || err != nil {
			return layer{Files: map[string]file{}}, "", nil, err
		}
		f, err := lock(filepath.Join(s.join(name), "lock"), false)
		if f != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return layer{dir: s.join(name)}, hash, f, err
		}
		time.Sleep(time.Millisecond)
	}
	return layer{}, "", nil, fmt.Errorf("lock the layer of %s: it keeps changing", s)
}

// base returns the current layer with its description, and locks it as lockCurrent does.
func (s layers) base() (layer, *os.File, error) {
	l, _, held, err := s.lockCurrent()
	if held != nil {
		l, err = load(l.dir)
	}
	return l, held, err
}

// add creates a new layer with directory in its content, and locks it until the file is closed.
func (s layers) add(directory string) (layer, *os.File, error) {
	for {
		l := layer{dir: s.join(layerPrefix + rand.Text()[:13]), Files: map[string]file{}}
		if err := os.MkdirAll(l.dir, 0o700); err != nil {
			return layer{}, nil, err
		}
		// A nil file, or one that is removed: another server pruned it in between.
		f, err := lock(filepath.Join(l.dir, "lock"), false)
		if f != nil {
			err = os.MkdirAll(filepath.Join(l.content(), directory), 0o700)
		}
		if f != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return l, f, err
		}
	}
}

// publish syncs a layer's files to the disk, makes it current, and returns its hash. The caller holds the layer and
// the directory's lock.
func (s layers) publish(l layer) (hash string, err error) {
	hash = l.hash()
	if err = l.save(); err == nil {
		err = syncDirectory(l.dir)
	}
	if err == nil {
		err = statefile.Replace(s.join("current"), "packages", []byte(filepath.Base(l.dir)+" "+hash), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("publish package layer: %w", err)
	}
	return hash, nil
}

// prune removes unlocked layers, except the current one.
func (s layers) prune() {
	all, _ := filepath.Glob(s.join(layerPrefix + "*"))
	for _, dir := range all {
		isCurrent := func() bool {
			name, _, err := s.current()
			return err != nil || name == filepath.Base(dir)
		}
		if isCurrent() {
			continue
		}
		// Create the lock: a server may have died between creating the directory and the lock.
		f, _ := lock(filepath.Join(dir, "lock"), true)
		if f != nil && !isCurrent() { // its creator locks it until it is current
			// Under its new name no other process finds it, however long the removal takes.
			if gone := s.join(layerPrefix + rand.Text()); os.Rename(dir, gone) == nil {
				os.RemoveAll(gone)
			}
		}
		f.Close() // nil is valid
	}
}

// view returns the view of a layer for sandboxes.
func (l layer) view(language string) View {
	m := managers()[language]
	mount := backends.Mount{Host: filepath.Join(l.content(), m.directory), Inside: m.inside}
	return View{Mounts: []backends.Mount{mount}, Env: []string{m.env + "=" + m.inside}, Release: func() {}}
}

// View returns the packages for a sandbox of the namespace, or of the session if that is not "". The backend's
// interpreter determines the kind. The caller releases the view.
func (s *Store) View(ctx context.Context, b backends.Backend, namespace, session, language string) (View, error) {
	none := View{Release: func() {}}
	if _, ok := managers()[language]; !ok {
		return none, nil
	}
	if session != "" {
		ses, err := s.session(namespace, session, language)
		if err != nil {
			return none, err
		}
		return ses.layer.view(language), nil // DropSession ends it
	}
	dir, err := dirName(namespace)
	// Most namespaces have no layer, and finding the kind takes a sandbox.
	if any, _ := filepath.Glob(filepath.Join(s.cfg.Dir, "namespaces", dir, language+"*", "current")); len(any) == 0 || err != nil {
		return none, err
	}
	kind, err := s.kind(ctx, b, language)
	if err != nil {
		return none, err
	}
	in, _ := s.layersOf(namespace, kind)
	l, hash, held, err := in.lockCurrent()
	if held == nil {
		return none, err
	}
	v := l.view(language)
	v.Layer = hash
	v.Release = sync.OnceFunc(func() {
		held.Close()
		if now, _, _ := in.current(); now != filepath.Base(l.dir) {
			in.prune()
		}
	})
	return v, nil
}

// lock opens a lock file, creating it if its directory exists, and locks it. If it is locked already, the file is
// nil, without an error. The kernel unlocks the file when it is closed, even if the process is killed.
func lock(name string, exclusive bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = statefile.TryLock(f, !exclusive); err == nil {
		ours, _ := f.Stat()
		if now, err := os.Stat(name); err == nil && os.SameFile(ours, now) { // else it was removed before it was locked
			return f, nil
		}
	}
	f.Close()
	if err == nil || errors.Is(err, statefile.ErrLocked) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", name, err)
}
