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

// layers is the directory of a namespace for one kind of interpreter (see kind). It holds
//
//	lock       held during an install or a removal
//	current    the name of the generation that new sandboxes see
//	gen-...    generations, each a layer and a lock that is shared by the views that show it
//	tmp-...    generations in the making; without a holder of the lock, rubbish
type layers string

const (
	generationPrefix = "gen-"
	stagePrefix      = "tmp-"
)

func (s layers) join(name string) string { return filepath.Join(string(s), name) }

// layersOf returns the directory of a namespace for a kind of interpreter, which need not exist.
func (s *Store) layersOf(namespace, kind string) (layers, error) {
	dir, err := dirName("namespace", namespace)
	return layers(filepath.Join(s.namespaces(), dir, kind)), err
}

// current returns the name of the generation that new sandboxes see, "" if there is none yet.
func (s layers) current() (string, error) {
	b, err := os.ReadFile(s.join("current"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	name := string(b)
	if err == nil && (!strings.HasPrefix(name, generationPrefix) || !filepath.IsLocal(name) || filepath.Base(name) != name) {
		err = fmt.Errorf("%s names no generation: %q", s.join("current"), name)
	}
	return name, err
}

// hold takes a shared lock of the current generation, so that nobody removes it, until the file is
// closed. A nil file without an error means that there is no generation.
func (s layers) hold() (string, *os.File, error) {
	for range 100 { // each time another one was switched to, and the one before removed
		name, err := s.current()
		if name == "" || err != nil {
			return "", nil, err
		}
		f, err := lock(filepath.Join(s.join(name), "lock"), false, false)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, err
		}
		if f != nil {
			return name, f, nil
		}
		time.Sleep(time.Millisecond)
	}
	return "", nil, fmt.Errorf("hold the generation of %s: it changes all the time", s)
}

// ownTime is longer than any install, whose own time ends its waiting.
const ownTime = 24 * time.Hour

// own waits for the exclusive lock of installs and removals here, which closing the file releases.
func (s layers) own(ctx context.Context) (*os.File, error) {
	return statefile.LockFile(ctx, s.join("lock"), false, ownTime)
}

// stage makes a directory for a new generation. The caller holds the lock, so stages that others left are abandoned,
// and removed.
func (s layers) stage() (string, error) {
	s.clear()
	return os.MkdirTemp(string(s), stagePrefix)
}

// clear removes all stages. The caller holds the lock.
func (s layers) clear() {
	left, _ := filepath.Glob(s.join(stagePrefix + "*"))
	for _, dir := range left {
		os.RemoveAll(dir)
	}
}

// publish turns a stage into the current generation, after its files are on the disk, and returns the layer's hash.
func (s layers) publish(l layer) (hash string, err error) {
	if hash, err = l.save(); err != nil {
		return "", err
	}
	f, err := lock(filepath.Join(l.dir, "lock"), false, true)
	if err == nil {
		f.Close()
		err = settle(l.dir)
	}
	// The hash in the name is known to a view without reading the layer.
	name := generationPrefix + rand.Text()[:13] + "-" + hash
	if err == nil {
		err = os.Rename(l.dir, s.join(name))
	}
	if err == nil {
		if err = statefile.Replace(s.join("current"), "packages", []byte(name), 0o600); err != nil {
			os.RemoveAll(s.join(name))
		}
	}
	if err != nil {
		return "", fmt.Errorf("publish package layer: %w", err)
	}
	s.prune()
	return hash, nil
}

// prune removes the generations without a view, except the current one. The caller holds the lock.
func (s layers) prune() {
	current, err := s.current()
	if err != nil {
		return
	}
	all, _ := filepath.Glob(s.join(generationPrefix + "*"))
	for _, dir := range all {
		if filepath.Base(dir) == current {
			continue
		}
		f, err := lock(filepath.Join(dir, "lock"), true, false)
		if f == nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// Under its new name nobody finds it any more, however long removing takes.
		gone := s.join(stagePrefix + filepath.Base(dir))
		if os.Rename(dir, gone) == nil {
			os.RemoveAll(gone)
		}
		f.Close() // of nil, too
	}
}

// tidy removes stages, and generations without a view, unless an install is under way, which does so at its end.
func (s layers) tidy() {
	f, _ := lock(s.join("lock"), true, false)
	if f == nil {
		return
	}
	defer f.Close()
	s.clear()
	s.prune()
}

// sweep removes the files of killed servers.
func (s *Store) sweep() {
	directories, _ := filepath.Glob(filepath.Join(s.namespaces(), "*", "*"))
	for _, dir := range directories {
		layers(dir).tidy()
	}
	s.sweepSessions()
}

// View returns the packages for a sandbox of the namespace, or of the session when that is not "". The backend's
// interpreter decides which kind fits. The caller releases the view.
func (s *Store) View(ctx context.Context, b backends.Backend, namespace, session, language string) (View, error) {
	t, ok := tools[language]
	if !ok {
		return View{Release: func() {}}, nil
	}
	if session != "" {
		return s.viewSession(namespace, session, language)
	}
	name, f, sh, err := s.holdCurrent(ctx, b, namespace, language)
	if f == nil || err != nil {
		return View{Release: func() {}}, err
	}
	v := t.show(layer{dir: sh.join(name)}.content())
	v.Layer = name[strings.LastIndex(name, "-")+1:]
	v.Release = sync.OnceFunc(func() {
		f.Close()
		if now, _ := sh.current(); now != name {
			sh.tidy()
		}
	})
	return v, nil
}

// holdCurrent holds the generation that a namespace's new sandboxes of a language see. A nil file
// without an error means that there is none yet.
func (s *Store) holdCurrent(ctx context.Context, b backends.Backend, namespace, language string) (string, *os.File, layers, error) {
	dir, err := dirName("namespace", namespace)
	if err != nil {
		return "", nil, "", err
	}
	// Most namespaces have no layer, and asking for the kind takes a sandbox.
	if !stocked(filepath.Join(s.namespaces(), dir), language) {
		return "", nil, "", nil
	}
	kind, err := s.kind(ctx, b, language)
	if err != nil {
		return "", nil, "", err
	}
	sh, _ := s.layersOf(namespace, kind)
	name, f, err := sh.hold()
	return name, f, sh, err
}

// lock opens a lock file, making it when make is set, and takes its lock unless that is held in a way that excludes it:
// then the file is nil, without an error. The kernel lets go of the lock when the file is closed, also when the process
// is killed.
func lock(name string, exclusive, make bool) (*os.File, error) {
	flags := os.O_RDONLY
	if make {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err = statefile.TryLock(f, !exclusive); err == nil {
		ours, _ := f.Stat()
		if now, err := os.Stat(name); err == nil && os.SameFile(ours, now) { // or else it was removed before it was locked
			return f, nil
		}
	}
	f.Close()
	if err == nil || errors.Is(err, statefile.ErrLocked) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", name, err)
}
