package signer

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
)

// directory is where artifacts are saved. No path prepared in it leads out of it: os.Root stays below its root, and
// enter refuses the links that os.Root would still follow.
type directory struct {
	top *os.Root // the caller's
	// The directory of the last file: files come sorted by directory.
	current *os.Root
	atName  string

	id     string // part of the temporary names
	staged []stagedFile
	names  map[string]bool // of all staged files
}

// stagedFile is a file with a temporary name.
type stagedFile struct{ dir, temp, base string }

// blocked is the error for a name under which no file can be saved.
type blocked struct{ why string }

func (b *blocked) Error() string { return b.why }

func newDirectory(top *os.Root, id string) *directory {
	return &directory{top: top, current: top, atName: ".", id: cmp.Or(id, rand.Text()), names: map[string]bool{}}
}

// removeOldLists removes the list of sums and the receipt of an earlier run.
func (d *directory) removeOldLists() error {
	for _, name := range []string{sumsName, ReceiptName} {
		if err := d.top.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the old %s from the directory for artifacts: %w", name, WithoutPaths(err))
		}
	}
	return nil
}

func (d *directory) closeSubdirectory() {
	if d.current != d.top {
		d.current.Close()
	}
	d.current, d.atName = d.top, "."
}

// stage writes r to a new file that is to be saved under name, in place of any other file. The error is a *blocked for
// an unusable name; r may then be read or not. buf is for copying.
func (d *directory) stage(name string, mode fs.FileMode, r io.Reader, buf []byte) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if d.names[dir] {
			return &blocked{hostfs.ErrNotDir.Error()}
		}
	}
	if err := d.openSubdirectory(path.Dir(name)); err != nil {
		return asBlocked(err)
	}
	base := path.Base(name)
	if info, err := d.current.Lstat(base); err == nil && info.IsDir() {
		return &blocked{"a directory has its name"}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return asBlocked(err)
	}
	temp, err := hostfs.Stage(d.current, d.id, len(d.staged), mode, func(f *os.File) error {
		// Without the wrapper *os.File would allocate a buffer of its own for each file.
		_, err := io.CopyBuffer(struct{ io.Writer }{f}, r, buf)
		return err
	})
	if err == nil {
		d.staged = append(d.staged, stagedFile{d.atName, temp, base})
		d.names[name] = true
	}
	return asBlocked(err)
}

// save renames the files to their names, in staging order, and the list of sums only after all others.
func (d *directory) save() error {
	defer d.closeSubdirectory()
	var failed error
	d.staged = slices.DeleteFunc(d.staged, func(f stagedFile) bool {
		if failed != nil && f.dir == "." && f.base == sumsName {
			return false
		}
		err := d.openSubdirectory(f.dir)
		if err == nil {
			err = d.current.Rename(f.temp, f.base)
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("save %q: %w", path.Join(f.dir, f.base), WithoutPaths(err))
		}
		return err == nil
	})
	return failed
}

// discard removes the files that were not renamed.
func (d *directory) discard() {
	defer d.closeSubdirectory()
	for _, f := range d.staged {
		if d.openSubdirectory(f.dir) == nil {
			_ = d.current.Remove(f.temp)
		}
	}
	d.staged = nil
}

// openSubdirectory makes dir the directory of the next file, and creates its missing parts.
func (d *directory) openSubdirectory(dir string) error {
	if dir == d.atName {
		return nil
	}
	d.closeSubdirectory()
	if dir == "." {
		return nil
	}
	at, err := hostfs.OpenBelow(d.top, strings.Split(dir, "/")...)
	if err != nil {
		return err
	}
	d.current, d.atName = at, dir
	return nil
}

// asBlocked turns a file system's refusal of a name into *blocked: FAT returns EINVAL for "a?b", macOS EILSEQ for
// invalid UTF-8.
func asBlocked(err error) error {
	for _, e := range []error{hostfs.ErrNotDir, hostfs.ErrReplaced} {
		if errors.Is(err, e) {
			return &blocked{e.Error()}
		}
	}
	for _, e := range []error{syscall.ENAMETOOLONG, syscall.EINVAL, syscall.EILSEQ} {
		if errors.Is(err, e) {
			return &blocked{"the file system can't take its name"}
		}
	}
	return err
}

// stageSums stages SHA256SUMS, unless it is empty, which is an error in sha256sum.
func (d *directory) stageSums(m Manifest) error {
	var b bytes.Buffer
	if err := m.WriteSums(&b); err != nil || b.Len() == 0 {
		return err
	}
	if err := d.stage(sumsName, 0o644, &b, nil); err != nil {
		return fmt.Errorf("save %s: %w", sumsName, WithoutPaths(err))
	}
	return nil
}

// ReceiptName is the file of a run's receipt, in the directory of its artifacts.
const ReceiptName = "receipt.intoto.json"

// stageReceipt stages the receipt, to be saved before all other files.
func (d *directory) stageReceipt(e Envelope) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := d.stage(ReceiptName, 0o644, bytes.NewReader(append(text, '\n')), nil); err != nil {
		return fmt.Errorf("save %s: %w", ReceiptName, WithoutPaths(err))
	}
	last := len(d.staged) - 1
	d.staged = slices.Insert(d.staged[:last], 0, d.staged[last])
	return nil
}

// nameProblem describes why no file can be saved under name, or "". Backends list clean relative names, but names in a
// container engine's archive are untrusted.
func nameProblem(name string) string {
	switch {
	case !filepath.IsLocal(name) || path.Clean(name) != name || name == ".":
		return "its name leaves the directory"
	case strings.ContainsRune(name, 0):
		return "its name has a NUL byte"
	case runtime.GOOS == "windows" && !isWindowsName(name):
		return "its name can't be used on Windows"
	}
	return ""
}

// isWindowsName reports whether Windows accepts a name: no forbidden characters, and no dots or spaces at the end,
// which it silently removes.
func isWindowsName(name string) bool {
	for elem := range strings.SplitSeq(name, "/") {
		if strings.TrimRight(elem, ". ") != elem {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`<>:"|?*\`, r) })
}
