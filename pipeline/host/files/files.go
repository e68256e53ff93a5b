// Package files reaches files of the host below directories that were allowed, and nowhere else.
//
// What holds on Linux, also while somebody else renames, links and mounts below such a directory:
//   - The directory is opened once, and what lies below it by openat2 with RESOLVE_BENEATH: no "..", absolute link
//     or magic link leads out. No link below it is followed at all, also none that stays inside: what is named is
//     what is opened, judged and recorded. A link in the name of the directory itself is followed if the
//     operator's configuration has it and no program can have left it (see hostfs), and not if it is in an approval.
//   - Only regular files are read and written, of file systems that keep files. Nothing else is so much as
//     opened: a fifo can't hold us up, and no device notices.
//   - Files of sandboxmcp's own are refused under every name: below a directory, by a bind mount, by a hard link.
//   - Files with credentials, and for writing hidden ones and others that the host may run or obey by itself, are
//     refused unless a root names them: see Guard.
//   - What is replaced is replaced as a whole, or not at all.
//
// What does not: a FUSE or network file system that hangs holds up whoever reads it. Whoever may rename a directory
// that is being written to out of the root takes the file along, which they could do afterwards as well. Names that
// are the same to a file system that ignores case are compared so everywhere, but file systems exist that
// take still other names for the same file.
//
// Elsewhere than on Linux from 5.6 on, all is refused: there is no weaker walk.
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
	Write bool   // also for writing; reading is always allowed
	Exact bool   // Path must lead through no link: a person approved these words, and not what a link makes of them
}

// Access lists the roots and bounds of a caller. The zero value allows nothing.
type Access struct {
	Roots    []Root
	Guard    Guard
	MaxBytes int64 // bytes of one file that are read or written
}

// Denial is an error that policy is the reason of.
type Denial struct {
	Path    string
	Why     string
	Outside bool // no root holds it: a person could allow one
}

func (d *Denial) Error() string { return fmt.Sprintf("%q %s", d.Path, d.Why) }

func deny(name, format string, args ...any) error {
	return &Denial{Path: name, Why: fmt.Sprintf(format, args...)}
}

// longest is the longest path that Linux takes, in bytes.
const longest = 4095

// Clean returns a path as it is compared: absolute, without "." and doubled slashes. One with ".." in it is refused,
// since what that means depends on where links lead.
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

// file is Clean for what can't be a directory.
func file(name string) (string, error) {
	clean, err := Clean(name)
	if err == nil && (strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.")) {
		return "", deny(name, "is written as a directory, and not as a file")
	}
	return clean, err
}

// relative returns name relative to dir, which holds it.
func relative(name, dir string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), ".")
}

// Holds reports whether the words of a root cover a path, without a look at either.
func (a Access) Holds(name string, write bool) bool {
	return slices.ContainsFunc(a.Roots, func(r Root) bool { return paths.Within(name, r.Path) && (r.Write || !write) })
}

// Describe puts into words which directories are allowed, for a caller that was refused.
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

// What Write does about a file that is there.
const (
	Create    = "create"    // refuses
	Overwrite = "overwrite" // replaces it as a whole
	Append    = "append"    // writes behind its end
)

// Written describes a file that was written. Without Had there was none before.
type Written struct {
	Had    bool
	Before []byte // what was in it, unless that is more than may be read: then Large
	Large  bool
	Size   int64    // of all of it now
	Notes  []string // what of the old file was not kept
}
