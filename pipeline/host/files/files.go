// Package files accesses files of the host below allowed directories, and nowhere else.
//
// Its promises on Linux, even while other processes rename, link and mount below such a directory:
//   - The directory is opened once, and paths below it by openat2 with RESOLVE_BENEATH: no "..", absolute link
//     or magic link leads out. Links below it are not followed, even if they stay inside: the named file is the one
//     that is opened, checked and recorded. A link in the path of the directory itself is followed if the
//     operator's configuration has it and no program can have created it (see hostfs), but not in an approval.
//   - Only regular files are read and written, on ordinary file systems. Nothing else is even opened: a fifo can't
//     block us, and no device notices.
//   - Files of sandboxmcp's own are refused under every name: below a directory, by a bind mount, by a hard link.
//   - Files with credentials, and for writing also hidden ones and others that the host may run or obey by itself, are
//     refused unless a root names them: see Guard.
//   - Files are replaced as a whole, or not at all.
//
// Limits: a FUSE or network file system that hangs blocks its reader. A process that may rename a directory out of the
// root while a file is written there takes the file along, which it could do afterwards as well. Names that a file
// system without case treats as equal are compared that way everywhere, but some file systems equate still other names.
//
// On other systems than Linux 5.6 or newer, all access is refused: there is no weaker implementation.
package files

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// Root is a directory that is allowed with all below it, or one file.
type Root struct {
	Path  string // absolute and clean
	Write bool   // allows writing too; reading is always allowed
	Exact bool   // Path must not contain links: a person approved this path, not a link's target
}

// Access has the roots and bounds of a caller. The zero value allows nothing.
type Access struct {
	Roots    []Root
	Guard    Guard
	MaxBytes int64 // maximum size of a file to read or write, in bytes
}

// Denial is an error because of policy.
type Denial struct {
	Path    string
	Why     string
	Outside bool // no root covers the path: a person could allow one
}

func (d *Denial) Error() string { return fmt.Sprintf("%q %s", d.Path, d.Why) }

func deny(name, format string, args ...any) error {
	return &Denial{Path: name, Why: fmt.Sprintf(format, args...)}
}

// longest is the maximum length of a path on Linux, in bytes.
const longest = 4095

// Clean returns a path in the form for comparisons: absolute, without "." and doubled slashes. It refuses "..", whose
// meaning depends on links.
func Clean(name string) (string, error) {
	switch {
	case strings.ContainsRune(name, 0):
		return "", deny(strings.ReplaceAll(name, "\x00", "?"), "has a NUL byte, which no path can have")
	case len(name) > longest:
		return "", deny(name[:40]+"...", "has %d bytes, and no path has more than %d", len(name), longest)
	case !strings.HasPrefix(name, "/"):
		return "", deny(name, "is not absolute: paths of the host begin with /")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", deny(name, "has .. in it: write the path without")
	}
	return path.Clean(name), nil
}

// file is Clean for a path that must not be a directory.
func file(name string) (string, error) {
	clean, err := Clean(name)
	if err == nil && (strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.")) {
		return "", deny(name, "is written as a directory, and not as a file")
	}
	return clean, err
}

// relative returns name relative to dir, which contains it.
func relative(name, dir string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), ".")
}

// Holds reports whether a root covers a path, by name only.
func (a Access) Holds(name string, write bool) bool {
	return slices.ContainsFunc(a.Roots, func(r Root) bool { return paths.Within(name, r.Path) && (r.Write || !write) })
}

// Describe lists the allowed directories for a caller that was refused.
func (a Access) Describe() string {
	if len(a.Roots) == 0 {
		return "no directory is allowed"
	}
	var all []string
	for _, r := range a.Roots {
		text := r.Path + " (read)"
		if r.Write {
			text = r.Path + " (read and write)"
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	const limit = 20
	if len(all) > limit {
		all = append(all[:limit], fmt.Sprintf("%d more", len(all)-limit))
	}
	return "allowed: " + strings.Join(all, ", ")
}

// Entry is one name in a directory. The about tags are descriptions in the schemas of tools.
type Entry struct {
	Path string `json:"path" about:"The entry's path, relative to the directory."`
	Kind string `json:"kind" about:"file, directory, link or other."`
	Size int64  `json:"size" about:"Its size in bytes."`
}

// Modes of Write for an existing file.
const (
	Create    = "create"    // fails
	Overwrite = "overwrite" // replaces it as a whole
	Append    = "append"    // appends to it
)

// Written describes a written file. Without Had, it did not exist before.
type Written struct {
	Had    bool
	Before []byte // previous content, unless it exceeds MaxBytes: then Large is set
	Large  bool
	Size   int64    // new size of the whole file
	Notes  []string // attributes of the old file that were lost
}
