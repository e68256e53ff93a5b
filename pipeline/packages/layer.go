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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// A layer is a directory with installed files (content, which sandboxes see), their packages (packages.json) and their
// list (files).
type layer struct {
	dir      string // "" for one that holds nothing
	packages []Package
	files    map[string]file // by path below content
}

// file is one file of a layer.
type file struct {
	size int64
	exec bool
	hash string // hex SHA-256
}

func (l layer) content() string { return filepath.Join(l.dir, "content") }

// load reads a layer that was saved.
func load(dir string) (layer, error) {
	l := layer{dir: dir, files: map[string]file{}}
	b, err := os.ReadFile(filepath.Join(dir, "packages.json"))
	if err == nil {
		err = json.Unmarshal(b, &l.packages)
	}
	if err == nil {
		err = l.loadFiles()
	}
	if err != nil {
		return layer{}, fmt.Errorf("read package layer: %w", err)
	}
	return l, nil
}

// loadFiles reads the list of files that save wrote.
func (l *layer) loadFiles() error {
	list := filepath.Join(l.dir, "files")
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		name, one, err := parseFile(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return fmt.Errorf("%s: %q: %w", list, line, err)
		}
		l.files[name] = one
	}
	return nil
}

// parseFile reads one line of list.
func parseFile(line string) (name string, f file, err error) {
	fields := strings.SplitN(line, " ", 4)
	if len(fields) != 4 || len(fields[0]) != 2*sha256.Size {
		return "", file{}, errors.New("not a file's hash, mode, size and name")
	}
	f.hash, f.exec = fields[0], fields[1] == "x"
	if f.size, err = strconv.ParseInt(fields[2], 10, 64); err != nil {
		return "", file{}, err
	}
	if name, err = strconv.Unquote(fields[3]); err == nil && !filepath.IsLocal(name) {
		err = errors.New("the name leads out of the layer")
	}
	return name, f, err
}

// list returns the layer's files as text, and the SHA-256 of that: it changes with every name, mode and byte.
func (l layer) list() (text, hash string) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		f, mode := l.files[name], "-"
		if f.exec {
			mode = "x"
		}
		b.WriteString(f.hash + " " + mode + " " + strconv.FormatInt(f.size, 10) + " " + strconv.Quote(name) + "\n")
	}
	sum := sha256.Sum256([]byte(b.String()))
	return b.String(), hex.EncodeToString(sum[:])
}

// save writes the layer's description beside its content, and returns its hash.
func (l layer) save() (string, error) {
	text, hash := l.list()
	b, err := json.Marshal(l.packages)
	if err == nil {
		err = statefile.Replace(filepath.Join(l.dir, "packages.json"), "packages", b, 0o600)
	}
	if err == nil {
		err = statefile.Replace(filepath.Join(l.dir, "files"), "packages", []byte(text), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("write package layer: %w", err)
	}
	return hash, nil
}

// bytes returns the sizes of all files together.
func (l layer) bytes() (n int64) {
	for _, f := range l.files {
		n += f.size
	}
	return n
}

// builder puts files into a directory that sandboxes will be shown: their user is not ours, so modes
// are set whatever the umask is.
type builder struct{ root string }

// newBuilder returns a builder, after making root.
func newBuilder(root string) (*builder, error) {
	b := &builder{root}
	return b, b.mkdir(".")
}

// mkdir makes a directory and its parents below root, with mode 0755, unless it exists.
func (b *builder) mkdir(name string) error {
	dir := filepath.Join(b.root, name)
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err = b.mkdir(filepath.Dir(name)); err == nil {
			err = os.Mkdir(dir, 0o755)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return os.Chmod(dir, 0o755)
}

// copy writes one new file. More than max bytes are errTooLarge.
func (b *builder) copy(name string, exec bool, r io.Reader, max int64) (file, error) {
	if err := b.mkdir(filepath.Dir(name)); err != nil {
		return file{}, err
	}
	mode := os.FileMode(0o644)
	if exec {
		mode = 0o755
	}
	f, err := os.OpenFile(filepath.Join(b.root, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
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
	return file{size: n, exec: exec, hash: hex.EncodeToString(sum.Sum(nil))}, nil
}

// clear removes all files.
func (b *builder) clear() {
	os.RemoveAll(b.root)
	b.mkdir(".")
}

// verify returns an error unless the files are there as they were when they were hashed.
func (b *builder) verify(files map[string]file) error {
	for name, want := range files {
		f, err := os.Open(filepath.Join(b.root, name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil || hex.EncodeToString(sum.Sum(nil)) != want.hash {
			return cmp.Or(err, errors.New("a file has changed since it was installed"))
		}
	}
	return nil
}

// link adds files of another layer as hard links: nobody writes to a layer's files, so both can share
// them. Where the file system has no hard links, or too many of one file, it copies.
func (b *builder) link(from string, files map[string]file) error {
	for name, f := range files {
		if err := b.mkdir(filepath.Dir(name)); err != nil {
			return err
		}
		old := filepath.Join(from, name)
		if os.Link(old, filepath.Join(b.root, name)) == nil {
			continue
		}
		r, err := os.Open(old)
		if err != nil {
			return err
		}
		_, err = b.copy(name, f.exec, r, f.size)
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
