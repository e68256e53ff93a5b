package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Files of a run's directory. The metadata file is written last: a directory without it is not in the store yet.
const (
	metadataName = "run.json"
	resultName   = "result.json" // its mtime is the time of the last read
	stdoutName   = "stdout"
	stderrName   = "stderr"
	filesName    = "files"
)

// metadata describes a run's directory, without large content. Names may be any bytes, which JSON strings can't
// represent.
type metadata struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Session   string `json:"session,omitempty"`
	Language  string `json:"language"`
	Name      []byte `json:"name"`
	backends.End
	Time       time.Time `json:"time"`
	StdoutCut  int64     `json:"stdout_cut"`
	StderrCut  int64     `json:"stderr_cut"`
	StdoutMIME string    `json:"stdout_mime"`
	StderrMIME string    `json:"stderr_mime"`
	Artifacts  []file    `json:"artifacts"`
}

type file struct {
	Name []byte `json:"name"`
	signer.Artifact
}

func newMetadata(r Record) metadata {
	h := metadata{
		ID: r.ID, Namespace: r.Namespace, Session: r.Session, Language: r.Language, Name: []byte(r.Name),
		End: r.End, Time: r.Time, StdoutCut: r.StdoutCut, StderrCut: r.StderrCut,
		StdoutMIME: textMIME(r.Stdout), StderrMIME: textMIME(r.Stderr),
	}
	for _, a := range r.Artifacts {
		h.Artifacts = append(h.Artifacts, file{[]byte(a.Name), a})
	}
	return h
}

// record converts h to a Record, without result and output.
func (h metadata) record() Record {
	r := Record{
		ID: h.ID, Namespace: h.Namespace, Session: h.Session, Language: h.Language, Name: string(h.Name),
		End: h.End, Time: h.Time, StdoutCut: h.StdoutCut, StderrCut: h.StderrCut,
	}
	for _, f := range h.Artifacts {
		f.Artifact.Name = string(f.Name)
		r.Artifacts = append(r.Artifacts, f.Artifact)
	}
	return r
}

// findFile returns the file in the run's directory for a caller's name, and its type.
func (h metadata) findFile(name string) (file, mime string, err error) {
	switch name {
	case stdoutName:
		return name, h.StdoutMIME, nil
	case stderrName:
		return name, h.StderrMIME, nil
	}
	a, err := artifact(h.record().Artifacts, name)
	return name, a.MIME, err
}

// isStored reports whether a run's artifacts, or an earlier record of it, are on disk.
func (s *Store) isStored(id string) bool {
	_, err := os.Lstat(filepath.Join(s.c.Dir, id))
	return !errors.Is(err, fs.ErrNotExist)
}

// openRun opens a run's directory.
func (s *Store) openRun(id string) (*os.Root, error) {
	dir, err := os.OpenRoot(s.c.Dir)
	if err != nil {
		return nil, gone(err)
	}
	defer dir.Close()
	if info, err := dir.Lstat(id); err != nil {
		return nil, gone(err)
	} else if !info.IsDir() {
		return nil, errors.New("its path is not a directory")
	}
	root, err := dir.OpenRoot(id)
	return root, gone(err)
}

// write writes a run into its directory. If that fails, it removes the directory.
func (s *Store) write(ctx context.Context, r Record) error {
	if err := s.makeDir(); err != nil {
		return signer.WithoutPaths(err)
	}
	dir, err := os.OpenRoot(s.c.Dir)
	if err != nil {
		return signer.WithoutPaths(err)
	}
	defer dir.Close()
	err = writeRun(ctx, dir, r)
	if err != nil {
		err = errors.Join(err, remove(dir, r.ID))
	}
	return err
}

func writeRun(ctx context.Context, dir *os.Root, r Record) error {
	if err := dir.Mkdir(r.ID, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return signer.WithoutPaths(err)
	}
	if info, err := dir.Lstat(r.ID); err != nil || !info.IsDir() {
		return errors.New("its path is not a directory")
	}
	if err := dir.Chmod(r.ID, 0o700); err != nil { // it was created readable for all when the artifacts were saved
		return signer.WithoutPaths(err)
	}
	root, err := dir.OpenRoot(r.ID)
	if err != nil {
		return signer.WithoutPaths(err)
	}
	defer root.Close()
	h, err := json.Marshal(newMetadata(r))
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{stdoutName, []byte(r.Stdout)}, {stderrName, []byte(r.Stderr)}, {resultName, r.Result}, {metadataName, h},
	} {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := hostfs.Replace(root, f.name, 0o600, func(to *os.File) error { _, err := to.Write(f.data); return err }); err != nil {
			return fmt.Errorf("write its %s: %w", f.name, signer.WithoutPaths(err))
		}
	}
	return nil
}

// readMetadata returns the metadata of a run's directory. Expired runs count as gone, even before they are removed.
func (s *Store) readMetadata(id string) (metadata, error) {
	var h metadata
	root, err := s.openRun(id)
	if err != nil {
		return h, err
	}
	defer root.Close()
	r := run{id: id}
	for name, t := range map[string]*time.Time{metadataName: &r.put, resultName: &r.read} {
		info, err := root.Lstat(name)
		if err != nil {
			return h, gone(err)
		}
		*t = info.ModTime()
	}
	if s.isExpired(r) {
		return h, ErrUnknown
	}
	data, err := readWhole(root, metadataName)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(data, &h); err != nil || h.ID != id {
		return h, fmt.Errorf("its %s is damaged", metadataName)
	}
	return h, nil
}

// load returns a whole run from the disk.
func (s *Store) load(id string) (Record, error) {
	h, err := s.readMetadata(id)
	if err != nil {
		return Record{}, err
	}
	root, err := s.openRun(id)
	if err != nil {
		return Record{}, err
	}
	defer root.Close()
	s.markDirectory(root)
	r := h.record()
	var text [3][]byte
	for i, name := range []string{stdoutName, stderrName, resultName} {
		if text[i], err = readWhole(root, name); err != nil {
			return Record{}, err
		}
	}
	if r.Stdout, r.Stderr = string(text[0]), string(text[1]); len(text[2]) > 0 {
		r.Result = text[2]
	}
	return r, nil
}

func readWhole(root *os.Root, name string) ([]byte, error) {
	if info, err := root.Lstat(name); err != nil {
		return nil, gone(err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("its %s is not a regular file", name)
	}
	data, err := root.ReadFile(name)
	return data, gone(err)
}

// onDisk returns the ids of all directories.
func (s *Store) onDisk() []string {
	entries, _ := os.ReadDir(s.c.Dir) // unreadable directories are not listed
	var ids []string
	for _, e := range entries {
		if id, err := parse(e.Name()); err == nil && id == e.Name() && e.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids
}

// markDirectory records that a run is being read.
func (s *Store) markDirectory(root *os.Root) {
	now := s.now()
	_ = root.Chtimes(resultName, now, now) // on error it may be removed sooner
}

// gone returns ErrUnknown for missing files.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrUnknown
	}
	return signer.WithoutPaths(err)
}
