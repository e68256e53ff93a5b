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

// lockWait bounds the wait for other processes. They hold these locks for milliseconds.
const lockWait = 10 * time.Second

// smallFile is a file that is read into memory: keys, tokens, checkpoints.
type smallFile struct {
	name    string
	content []byte
	changed time.Time
}

// maxSmallFile exceeds the size of any of these files.
const maxSmallFile = 32 << 20

// snapshot is a snapshot of the state. No key, token or secret in it is newer than the log, whose rows are read last, and
// it has all rows that were acknowledged before. Results are the exception: the log records a run before its files are
// there.
type snapshot struct {
	files     []smallFile
	vault     *statefile.Snapshot // nil if there is no vault
	elsewhere int                 // number of secrets in the keyring of the operating system
	logs      []logFile           // newest first
}

// logFile is a database of the log.
type logFile struct {
	name string
	*statefile.Snapshot
}

// takeSnapshot reads the small files and opens the large ones while it holds the locks of tokens, keys and secrets.
func takeSnapshot(ctx context.Context, cfg config.Config) (m *snapshot, err error) {
	m = &snapshot{}
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
		m.files = append(m.files, smallFile{"vault.key", key, time.Now()})
	}
	err = identity.OpenTokens(cfg.StateDir).Freeze(ctx, func() error {
		return keys.WithLock(ctx, func() error {
			return errors.Join(m.readState(cfg.StateDir), m.openLog(ctx, cfg.SQLitePath))
		})
	})
	return m, err
}

// readState reads the small files of the state directory.
func (m *snapshot) readState(dir string) error {
	return errors.Join(m.readIfExists(dir, "tokens.json"), m.readAll(dir, "keys"), m.readAll(dir, "history"))
}

func (m *snapshot) readAll(dir, below string) error {
	entries, err := os.ReadDir(filepath.Join(dir, below))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if name := path.Join(below, e.Name()); isIncluded(name) {
			err = errors.Join(err, m.readIfExists(dir, name))
		}
	}
	return err
}

// readIfExists reads a file if it exists.
func (m *snapshot) readIfExists(dir, name string) error {
	return m.readFileAs(filepath.Join(dir, name), name)
}

func (m *snapshot) readFileAs(file, name string) error {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	content, err := statefile.ReadSmall(file, maxSmallFile)
	if err != nil {
		return err
	}
	m.files = append(m.files, smallFile{name, content, info.ModTime()})
	return nil
}

// openLog opens the files of the log at path. Files beside the databases come first: pending rows are then either in
// the log or in the backup, and no checkpoint covers more rows than are read after it. The newest database comes before
// the older ones: a row that is in none when that one is opened was written later.
func (m *snapshot) openLog(ctx context.Context, file string) error {
	for _, beside := range []string{"-checkpoint", "-owed"} {
		if err := m.readFileAs(file+beside, logName+beside); err != nil {
			return err
		}
	}
	paths, err := audit.Files(file)
	for _, logPath := range slices.Backward(paths) {
		name := logName
		if logPath != file {
			name = logName + "-files/" + logName + filepath.Ext(logPath)
		}
		s, err := statefile.OpenSnapshot(ctx, logPath, lockWait)
		if err != nil {
			return err
		}
		m.logs = append(m.logs, logFile{name, s})
	}
	return err
}

func (m *snapshot) close() {
	if m.vault != nil {
		m.vault.Close()
	}
	for _, l := range m.logs {
		l.Close()
	}
}

// write writes the state to an archive. The vault comes first, since its lock blocks changes until it is written.
func (m *snapshot) write(ctx context.Context, a *archive) error {
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

// addFile copies a file of a file system into an archive.
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

// addResults copies stored results into an archive. A server may remove some meanwhile, so the file that declares a run
// comes last.
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
			continue // the run is not finished yet
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
			return fmt.Errorf("stored files of run %s: %w", e.Name(), err)
		}
	}
	return err
}

// unknownEntries lists entries of the state directory that no row of parts matches.
func unknownEntries(cfg config.Config) (names []string) {
	entries, _ := os.ReadDir(cfg.StateDir)
	for _, e := range entries {
		name := e.Name()
		if rest, is := strings.CutPrefix(name, filepath.Base(cfg.SQLitePath)); is && filepath.Dir(cfg.SQLitePath) == cfg.StateDir {
			name = logName + rest
		}
		if findPart(name) == nil {
			names = append(names, e.Name())
		}
	}
	return names
}
