package results

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/signer"
)

// maxPart bounds the result of one Read, in bytes.
const maxPart = 16 << 20

// Part is a piece of a large file.
type Part struct {
	Data []byte
	Size int64 // bytes of the whole
	MIME string
}

// Read returns a part of a run's "stdout", its "stderr", or of "files/" and an artifact's name: up to length bytes
// from offset, at most 16 MiB, which is also the default for length 0. Past the end it returns none. A withheld
// artifact is a *Withheld, and a missing entry is ErrUnknown.
func (s *Store) Read(id, name string, offset, length int64) (Part, error) {
	id, err := parse(id)
	if err != nil {
		return Part{}, err
	}
	if offset < 0 || length < 0 {
		return Part{}, fmt.Errorf("read %.200q of run %s: offset and length must not be negative", name, id)
	}
	if length == 0 || length > maxPart {
		length = maxPart
	}
	p, err := s.read(id, name, offset, length)
	if err != nil {
		return Part{}, fmt.Errorf("read %.200q of run %s: %w", name, id, err)
	}
	return p, nil
}

func (s *Store) read(id, name string, offset, length int64) (Part, error) {
	if r, ok := s.recall(id); ok {
		return r.read(name, offset, length)
	}
	h, err := s.readMetadata(id)
	if err != nil {
		return Part{}, err
	}
	file, mime, err := h.findFile(name)
	if err != nil {
		return Part{}, err
	}
	root, err := s.openRun(id)
	if err != nil {
		return Part{}, err
	}
	defer root.Close()
	s.markDirectory(root)
	f, err := open(root, file)
	if err != nil {
		return Part{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Part{}, signer.WithoutPaths(err)
	}
	p := Part{Size: info.Size(), MIME: mime}
	p.Data = make([]byte, max(0, min(length, p.Size-offset)))
	if n, err := f.ReadAt(p.Data, offset); err != nil && !errors.Is(err, io.EOF) {
		return Part{}, signer.WithoutPaths(err)
	} else {
		p.Data = p.Data[:n]
	}
	return p, nil
}

// read is Read for a run in memory, which has no artifacts.
func (r Record) read(name string, offset, length int64) (Part, error) {
	text := r.Stdout
	switch name {
	case stdoutName:
	case stderrName:
		text = r.Stderr
	default:
		if _, err := artifact(r.Artifacts, name); err != nil {
			return Part{}, err
		}
		return Part{}, errUnsaved
	}
	from := min(offset, int64(len(text)))
	to := from + min(length, int64(len(text))-from)
	return Part{Data: []byte(text[from:to]), Size: int64(len(text)), MIME: textMIME(text)}, nil
}

// Withheld is the error for an artifact that is withheld.
type Withheld struct{ Name, Why string }

func (w *Withheld) Error() string { return fmt.Sprintf("%.200q is withheld: %s", w.Name, w.Why) }

var errUnsaved = errors.New("it was not saved at the end of the run")

// artifact returns the artifact with a name that begins with "files/".
func artifact(list []signer.Artifact, name string) (signer.Artifact, error) {
	if want, ok := strings.CutPrefix(name, filesName+"/"); ok {
		for _, a := range list {
			if a.Name == want && a.Withheld != "" {
				return a, &Withheld{a.Name, a.Withheld}
			}
			if a.Name == want {
				return a, nil
			}
		}
	}
	return signer.Artifact{}, fmt.Errorf("the run has no artifact with this name: %w", ErrUnknown)
}

// open opens a regular file without following links. Only this user could create one; even if one appears during the
// call, os.Root keeps it inside the run's directory.
func open(root *os.Root, name string) (*os.File, error) {
	for i, c := range name + "/" {
		if c != '/' {
			continue
		}
		info, err := root.Lstat(name[:i])
		switch last := i == len(name); {
		case errors.Is(err, os.ErrNotExist):
			return nil, errUnsaved
		case err != nil:
			return nil, signer.WithoutPaths(err)
		case last && !info.Mode().IsRegular(), !last && !info.IsDir():
			return nil, fmt.Errorf("%.200q is not a regular file", path.Base(name[:i]))
		}
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, signer.WithoutPaths(err)
	}
	return f, nil
}

// textMIME returns the media type of output.
func textMIME(text string) string {
	if utf8.ValidString(text) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
