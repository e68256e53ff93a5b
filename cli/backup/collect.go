package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// lockWait bounds the wait for other processes, which hold locks for milliseconds.
const lockWait = 10 * time.Second

// small is a file that is in memory: keys, tokens, checkpoints.
type small struct {
	name    string
	content []byte
	changed time.Time
}

// maxSmall is more than any of these files has.
const maxSmall = 32 << 20

// moment is the state at one moment, except for results, whose rows the log has before they are there. No key, token or
// secret is newer than the log: its rows are read last. All rows that were acknowledged before are in it.
type moment struct {
	files     []small
	vault     *statefile.Snapshot // nil where there is none
	elsewhere int                 // secrets in the keyring of the operating system
	logs      []logFile           // the newest first
}

// logFile is a database of the log.
type logFile struct {
	name string
	*statefile.Snapshot
}

// take reads what is small, and opens what is large, while nobody changes tokens, keys or secrets.
func take(ctx context.Context, cfg config.Config) (m *moment, err error) {
	m = &moment{}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	keys, err := wiring.Keys(cfg)
	if err != nil {
		return m, err
	}
	var key []byte
	if m.vault, key, m.elsewhere, err = vault.NewSealed(cfg.StateDir, nil).Snapshot(ctx); err != nil {
		return m, err
	}
	if key != nil {
		m.files = append(m.files, small{"vault.key", key, time.Now()})
	}
	err = identity.OpenTokens(cfg.StateDir).Freeze(ctx, func() error {
		return keys.Freeze(ctx, func() error {
			return errors.Join(m.readState(cfg.StateDir), m.openLog(ctx, cfg.SQLitePath))
		})
	})
	return m, err
}

// readState reads the small files of the state directory.
func (m *moment) readState(dir string) error {
	return errors.Join(m.read(dir, "tokens.json"), m.readAll(dir, "keys"), m.readAll(dir, "history"))
}

func (m *moment) readAll(dir, below string) error {
	entries, err := os.ReadDir(filepath.Join(dir, below))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if name := path.Join(below, e.Name()); isIncluded(name) {
			err = errors.Join(err, m.read(dir, name))
		}
	}
	return err
}

// read reads a file, if it is there.
func (m *moment) read(dir, name string) error { return m.readAs(filepath.Join(dir, name), name) }

func (m *moment) readAs(file, name string) error {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	content, err := statefile.ReadSmall(file, maxSmall)
	if err != nil {
		return err
	}
	m.files = append(m.files, small{name, content, info.ModTime()})
	return nil
}

// openLog opens the files of the log at path. What lies beside the databases comes first: rows that are owed are in the
// log or there, and no checkpoint covers more rows than are read after it. The newest database comes before the older
// ones: what is in none when it is opened, was written later.
func (m *moment) openLog(ctx context.Context, file string) error {
	for _, beside := range []string{"-checkpoint", "-owed"} {
		if err := m.readAs(file+beside, logName+beside); err != nil {
			return err
		}
	}
	paths, err := audit.Files(file)
	for _, path := range slices.Backward(paths) {
		name := logName
		if path != file {
			name = logName + "-files/" + logName + filepath.Ext(path)
		}
		s, err := statefile.OpenSnapshot(ctx, path, lockWait)
		if err != nil {
			return err
		}
		m.logs = append(m.logs, logFile{name, s})
	}
	return err
}

func (m *moment) close() {
	if m.vault != nil {
		m.vault.Close()
	}
	for _, l := range m.logs {
		l.Close()
	}
}

// write writes the state to an archive, the vault first: until it is written, nobody can change it.
func (m *moment) write(ctx context.Context, a *archive) error {
	if m.vault != nil {
		err := a.add("vault.db", m.vault.Size(), 0o600, time.Now(), func(w io.Writer) error { return m.vault.Copy(ctx, w) })
		if err = errors.Join(err, m.vault.Close()); err != nil {
			return err
		}
		m.vault = nil
	}
	for _, f := range m.files {
		err := a.add(f.name, int64(len(f.content)), 0o600, f.changed, func(w io.Writer) error { _, err := w.Write(f.content); return err })
		clear(f.content)
		if err != nil {
			return err
		}
	}
	for _, l := range m.logs {
		if err := a.add(l.name, l.Size(), 0o600, time.Now(), func(w io.Writer) error { return l.Copy(ctx, w) }); err != nil {
			return err
		}
	}
	return nil
}

// addFile writes a file of a file system to an archive.
func addFile(ctx context.Context, a *archive, from fs.FS, name, as string) error {
	f, err := from.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return a.add(as, info.Size(), info.Mode(), info.ModTime(), func(w io.Writer) error {
		_, err := io.CopyN(w, f, info.Size())
		return errors.Join(err, context.Cause(ctx))
	})
}

// addResults writes what is kept of runs to an archive. A server may remove some meanwhile: what says that a run is
// there comes last.
func addResults(ctx context.Context, a *archive, dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	runs, err := fs.ReadDir(root.FS(), ".")
	for _, e := range runs {
		if !e.IsDir() || !isIncluded("runs/"+e.Name()) {
			continue
		}
		const last = "run.json"
		if _, none := root.Lstat(path.Join(e.Name(), last)); none != nil {
			continue // it is being made
		}
		err := fs.WalkDir(root.FS(), e.Name(), func(name string, f fs.DirEntry, err error) error {
			if err != nil || !f.Type().IsRegular() || name == path.Join(e.Name(), last) {
				return err
			}
			return addFile(ctx, a, root.FS(), name, "runs/"+name)
		})
		if err == nil {
			err = addFile(ctx, a, root.FS(), path.Join(e.Name(), last), "runs/"+path.Join(e.Name(), last))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("what is kept of run %s: %w", e.Name(), err)
		}
	}
	return err
}

// unknown lists what the state directory has that the table does not know.
func unknown(cfg config.Config) (names []string) {
	entries, _ := os.ReadDir(cfg.StateDir)
	for _, e := range entries {
		name := e.Name()
		if rest, is := strings.CutPrefix(name, filepath.Base(cfg.SQLitePath)); is && filepath.Dir(cfg.SQLitePath) == cfg.StateDir {
			name = logName + rest
		}
		if find(name) == nil {
			names = append(names, e.Name())
		}
	}
	return names
}
