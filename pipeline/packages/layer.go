package packages

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// layer is a directory with installed files (content, which sandboxes see) and their description (layer.json).
type layer struct {
	dir      string // "" for an empty layer
	Packages []Package
	Files    map[string]file // by path below content
}

// file is one file of a layer.
type file struct {
	Size int64
	Exec bool
	Hash string // hex SHA-256
}

func (l layer) content() string { return filepath.Join(l.dir, "content") }

// load reads a saved layer.
func load(dir string) (layer, error) {
	l := layer{dir: dir}
	b, err := os.ReadFile(filepath.Join(dir, "layer.json"))
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		return layer{}, fmt.Errorf("read package layer: %w", err)
	}
	return l, nil
}

// hash returns the SHA-256 of the list of the layer's files: it changes with every name, mode and byte.
func (l layer) hash() string {
	b, _ := json.Marshal(l.Files) // sorted by name
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// save writes the layer's description next to its content. It makes the directories readable for others, independent
// of the umask, because sandboxes have another user.
func (l layer) save() error {
	err := filepath.WalkDir(l.content(), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(name, 0o755)
		}
		return err
	})
	b, _ := json.Marshal(l)
	if err = cmp.Or(err, statefile.Replace(filepath.Join(l.dir, "layer.json"), "packages", b, 0o600)); err != nil {
		return fmt.Errorf("write package layer: %w", err)
	}
	return nil
}

// bytes returns the total size of the files.
func (l layer) bytes() (n int64) {
	for _, f := range l.Files {
		n += f.Size
	}
	return n
}

// copy writes one new file. More than max bytes give errTooLarge.
func (l layer) copy(name string, exec bool, r io.Reader, max int64) (file, error) {
	to, mode := filepath.Join(l.content(), name), os.FileMode(0o644)
	if exec {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return file{}, err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return file{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(r, max+1))
	if err == nil && n > max {
		err = errTooLarge
	}
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return file{}, err
	}
	return file{n, exec, hex.EncodeToString(sum.Sum(nil))}, nil
}

// link adds files of another layer as hard links, which is safe because nobody writes to files of layers. It copies
// where the file system has no hard links, or too many of one file.
func (l layer) link(from layer, files map[string]file) error {
	for name, f := range files {
		old, fresh := filepath.Join(from.content(), name), filepath.Join(l.content(), name)
		if err := os.MkdirAll(filepath.Dir(fresh), 0o755); err != nil {
			return err
		}
		if os.Link(old, fresh) == nil {
			continue
		}
		r, err := os.Open(old)
		if err != nil {
			return err
		}
		_, err = l.copy(name, f.Exec, r, f.Size)
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// verify returns an error if a file of the layer has changed since it was hashed.
func (l layer) verify() error {
	for name, want := range l.Files {
		f, err := os.Open(filepath.Join(l.content(), name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil || hex.EncodeToString(sum.Sum(nil)) != want.Hash {
			return cmp.Or(err, errors.New("a file has changed since it was installed"))
		}
	}
	return nil
}
