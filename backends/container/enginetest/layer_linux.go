package enginetest

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// layer is a file system layer of an image, stored in a file.
type layer struct {
	file string
	size int64
	sum  string // SHA-256 of the file, hex
}

// layerWriter writes a layer from files of this machine and made-up ones.
type layerWriter struct {
	w       *tar.Writer
	seen    map[string]bool // including all layers below
	without string          // a directory to leave out, "" for none
	err     error           // the first error
}

// makeLayer writes a layer into a directory. It leaves out the paths in seen, and adds the written ones to it.
func makeLayer(dir, name string, seen map[string]bool, fill func(*layerWriter)) (layer, error) {
	f, err := os.Create(filepath.Join(dir, name+".tar"))
	if err != nil {
		return layer{}, err
	}
	defer f.Close()
	sum := sha256.New()
	to := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	l := &layerWriter{w: tar.NewWriter(to), seen: seen}
	fill(l)
	for _, end := range []func() error{l.w.Close, to.Flush} {
		if err := end(); l.err == nil {
			l.err = err
		}
	}
	if l.err != nil {
		return layer{}, fmt.Errorf("layer %s: %w", name, l.err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	return layer{f.Name(), size, hex.EncodeToString(sum.Sum(nil))}, err
}

// writeEntry writes one entry, owned by root.
func (l *layerWriter) writeEntry(h *tar.Header, content io.Reader) {
	if l.err != nil {
		return
	}
	h.Name = strings.TrimPrefix(h.Name, "/")
	h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime = 0, 0, "", "", time.Unix(1_700_000_000, 0)
	if h.PAXRecords != nil {
		h.Format = tar.FormatPAX
	}
	if l.err = l.w.WriteHeader(h); l.err == nil && content != nil {
		_, l.err = io.Copy(l.w, content)
	}
}

func (l *layerWriter) writeDir(name string, mode int64) {
	l.writeEntry(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}, nil)
}

func (l *layerWriter) writeLink(name, to string) {
	l.writeEntry(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}, nil)
}

func (l *layerWriter) writeText(name string, mode int64, content string) {
	l.writeEntry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, strings.NewReader(content))
}

// add copies a path of this machine, with its parent directories, the links on the way and their targets. It
// ignores a missing path.
func (l *layerWriter) add(path string) {
	at, parts := "/", strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for i, name := range parts {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		if err != nil || l.err != nil {
			return
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			l.entry(at, info, "")
			continue
		}
		to, err := os.Readlink(at)
		if err != nil {
			return
		}
		l.entry(at, info, to)
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(at), to)
		}
		l.add(filepath.Join(append([]string{to}, parts[i+1:]...)...))
		return
	}
}

func (l *layerWriter) entry(path string, info fs.FileInfo, to string) {
	if l.without != "" && paths.Within(path, l.without) {
		return
	}
	if l.seen[path] || !info.Mode().IsRegular() && !info.IsDir() && to == "" {
		return
	}
	l.seen[path] = true
	h, err := tar.FileInfoHeader(info, to)
	if err != nil {
		l.err = err
		return
	}
	h.Name = path
	if !info.Mode().IsRegular() {
		l.writeEntry(h, nil)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		return // programs must not see files that we may not read
	}
	defer f.Close()
	l.writeEntry(h, io.LimitReader(f, info.Size()))
}

// copyTree copies a directory, without those below it whose names are in skip.
func (l *layerWriter) copyTree(dir string, skip ...string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		for _, name := range skip {
			if ok, _ := filepath.Match(name, d.Name()); ok && path != dir && d.IsDir() {
				return filepath.SkipDir
			}
		}
		l.add(path)
		return nil
	})
}

var libraryPath = regexp.MustCompile(`(?m)(?:=>|^\t)\s*(/\S+) \(0x`)

// copyPrograms copies programs and shared objects with their libraries.
func (l *layerWriter) copyPrograms(paths ...string) {
	for _, path := range paths {
		l.add(path)
	}
	out, _ := exec.Command("ldd", paths...).Output() // fails for scripts
	for _, m := range libraryPath.FindAllStringSubmatch(string(out), -1) {
		l.add(m[1])
	}
}

// findPrograms resolves names in the system's program directories, and leaves out missing ones.
func findPrograms(names ...string) (paths []string) {
	for _, name := range names {
		for _, dir := range []string{"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"} {
			if _, err := os.Stat(dir + name); err == nil {
				paths = append(paths, dir+name)
				break
			}
		}
	}
	return paths
}
