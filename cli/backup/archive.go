package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// A backup is a tar archive, encrypted with age: a header, the files, and their manifest. The manifest has the sum of
// the list of sums rather than the list, which would have to be in memory for any number of files.
const (
	headerName   = "backup.json"
	manifestName = "manifest.json"
	format       = 1
	maxJSON      = 64 << 10
)

// archiveHeader is the first entry of a backup.
type archiveHeader struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Made    time.Time `json:"made"`
	Version string    `json:"version"` // of sandboxmcp
}

// manifest is the last entry of a backup.
type manifest struct {
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // of a line "SHA-256  name" for each file, in the order of the archive, names quoted as in Go
}

// sums builds the manifest, both when a backup is written and when it is read.
type sums struct {
	manifest
	lines hash.Hash
}

func newSums() *sums { return &sums{lines: sha256.New()} }

func (s *sums) add(name string, size int64, sum []byte) {
	s.Files++
	s.Bytes += size
	fmt.Fprintf(s.lines, "%x  %q\n", sum, name)
}

func (s *sums) total() manifest {
	s.SHA256 = hex.EncodeToString(s.lines.Sum(nil))
	return s.manifest
}

// archive writes a backup.
type archive struct {
	*tar.Writer
	sums *sums
}

func newArchive(w io.Writer, h archiveHeader) (*archive, error) {
	a := &archive{tar.NewWriter(w), newSums()}
	return a, a.writeJSON(headerName, h)
}

func (a *archive) writeJSON(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err = a.Write(text)
	return err
}

// add writes a file of the size; write writes its content.
func (a *archive) add(name string, size int64, mode fs.FileMode, changed time.Time, write func(io.Writer) error) error {
	if !isIncluded(name) {
		return fmt.Errorf("%q is not in the table of what a backup holds, which is a fault of sandboxmcp", name)
	}
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode.Perm()), Size: size, ModTime: changed.Truncate(time.Second)}
	if err := a.WriteHeader(head); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	sum := sha256.New()
	if err := write(io.MultiWriter(a, sum)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.sums.add(name, size, sum.Sum(nil))
	return a.Flush() // fails if the content was shorter than size
}

// finish writes the manifest.
func (a *archive) finish() (manifest, error) {
	m := a.sums.total()
	return m, errors.Join(a.writeJSON(manifestName, m), a.Close())
}

// extract writes the files of a backup into an empty directory. It trusts nothing in the archive: anyone with the
// recipient could have written it.
func extract(r io.Reader, dir *os.Root) (h archiveHeader, m manifest, err error) {
	t := tar.NewReader(r)
	if err := readJSON(t, headerName, &h); err != nil {
		return h, m, err
	}
	if h.Format != format {
		return h, m, fmt.Errorf("its format is version %d, and this program supports version %d: use the sandboxmcp that made it, version %q",
			h.Format, format, h.Version)
	}
	found := newSums()
	for {
		head, err := t.Next()
		if err == io.EOF {
			return h, m, errors.New("it ends before its manifest")
		}
		if err != nil {
			return h, m, err
		}
		if head.Name == manifestName {
			break
		}
		if err := checkEntry(head); err != nil {
			return h, m, err
		}
		if err := writeEntry(t, head, dir, found); err != nil {
			return h, m, err
		}
	}
	if err := decodeEntry(t, manifestName, &m); err != nil {
		return h, m, err
	}
	if m != found.total() {
		return h, m, errors.New("its files are not those of its manifest")
	}
	if _, err := t.Next(); err != io.EOF {
		return h, m, errors.Join(errors.New("something follows its manifest"), err)
	}
	rest, err := io.Copy(io.Discard, io.LimitReader(r, maxJSON+1)) // up to the end, where age verifies the last chunk
	if err == nil && rest > maxJSON {
		err = errors.New("something follows its archive")
	}
	return h, m, err
}

func readJSON(t *tar.Reader, name string, v any) error {
	head, err := t.Next()
	if err == io.EOF || err == nil && head.Name != name {
		return errors.New("it is not a backup of sandboxmcp")
	}
	if err != nil {
		return err
	}
	return decodeEntry(t, name, v)
}

func decodeEntry(t *tar.Reader, name string, v any) error {
	text, err := io.ReadAll(io.LimitReader(t, maxJSON))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("its %s: %w", name, err)
	}
	return nil
}

// checkEntry refuses entries that no backup of ours has: links, devices, names outside of the directory, and sparse files,
// of which a small archive can expand to any number of bytes.
func checkEntry(head *tar.Header) error {
	name := head.Name
	switch {
	case !filepath.IsLocal(name) || path.Clean(name) != name || !isIncluded(name):
		return fmt.Errorf("unexpected entry %q", name)
	case head.Typeflag != tar.TypeReg:
		return fmt.Errorf("%q in it is not a file", name)
	}
	for key := range head.PAXRecords {
		if strings.HasPrefix(key, "GNU.") {
			return fmt.Errorf("%q in it is a sparse file", name)
		}
	}
	return nil
}

// writeEntry creates the file of an entry. Only its owner can read it, unless it is an artifact.
func writeEntry(t *tar.Reader, head *tar.Header, dir *os.Root, found *sums) error {
	mode := fs.FileMode(0o600)
	if strings.HasPrefix(head.Name, "runs/") {
		mode |= head.FileInfo().Mode().Perm() & 0o755
	}
	if err := dir.MkdirAll(path.Dir(head.Name), 0o700); err != nil {
		return err
	}
	f, err := dir.OpenFile(head.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), t)
	if err == nil && !strings.HasPrefix(head.Name, "runs/") { // results are not synced when runs write them, either
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	found.add(head.Name, head.Size, sum.Sum(nil))
	return dir.Chtimes(head.Name, time.Time{}, head.ModTime)
}
