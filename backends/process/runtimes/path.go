package runtimes

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// SystemPath is the search path inside a sandbox, after Runtime.PathDirs.
const SystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// candidate is a possible program, and how it was found.
type candidate struct{ dir, name, how string }

// candidates yields programs in the order that a user expects: an activated virtual environment, PATH, the
// installations of version managers that a non-interactive shell does not see, and the system's own directories.
func (f *finder) candidates() iter.Seq[candidate] {
	var named, system []candidate
	for _, name := range f.programs {
		if v := f.env.Get("VIRTUAL_ENV"); v != "" && f.name == "python" {
			named = append(named, candidate{filepath.Join(v, "bin"), name, "VIRTUAL_ENV"})
		}
	}
	for _, name := range f.programs {
		for _, dir := range filepath.SplitList(f.env.Path) {
			named = append(named, candidate{dir, name, "on PATH in " + dir})
		}
	}
	for _, dir := range filepath.SplitList(SystemPath) {
		for _, name := range f.programs {
			system = append(system, candidate{dir, name, "in " + dir + ", which is not on PATH"})
		}
	}
	return func(yield func(candidate) bool) {
		for _, list := range []func() []candidate{func() []candidate { return named }, f.managedCandidates,
			func() []candidate { return system }} {
			for _, c := range list() {
				if f.isUsable(c) && !yield(c) {
					return
				}
			}
		}
	}
}

// isUsable reports whether a candidate is a program that no other user can have put there.
func (f *finder) isUsable(c candidate) bool {
	path := filepath.Join(c.dir, c.name)
	if !filepath.IsAbs(c.dir) {
		// "", "." and relative entries mean the working directory, which contains downloaded and generated files.
		if _, err := os.Stat(path); err == nil {
			f.addNote("skipped %s: its PATH entry is relative", path)
		}
		return false
	}
	if !isExecutable(path) {
		return false
	}
	if err := checkSafe(c.dir, path); err != nil {
		f.addNote("passed over %v", err)
		return false
	}
	return true
}

// checkSafe refuses programs that any user of the host can replace.
func checkSafe(paths ...string) error {
	for _, p := range paths {
		fi, err := os.Stat(p)
		if err != nil {
			return err
		}
		if fi.Mode().Perm()&0o002 != 0 {
			return fmt.Errorf("%s: writable by everybody", p)
		}
	}
	return nil
}

// isExecutable reports whether path is a regular file that somebody may execute; it follows symbolic links.
func isExecutable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0
}

// pathDirs returns the directories to put before SystemPath so that r is found first by its names.
func (f *finder) pathDirs(r Runtime) []string {
	if !filepath.IsAbs(r.Argv0) {
		return nil
	}
	dir := filepath.Dir(r.Argv0)
	if isSystemPath(dir) && !isSystemPath(r.Path) {
		// /usr/local/bin/node may be a link to /opt/node/bin/node; npm may only be in the link's directory.
		dir = filepath.Dir(r.Path)
	}
	if !isSystemPath(dir) {
		return []string{dir}
	}
	want, err := os.Stat(r.Path)
	if err != nil {
		return nil
	}
	name, dirs := filepath.Base(r.Argv0), filepath.SplitList(SystemPath)
	if !slices.Contains(dirs, dir) {
		return []string{dir} // a virtual environment below /usr: its python3 is the system's file
	}
	for _, d := range dirs {
		if p := filepath.Join(d, name); isExecutable(p) {
			if fi, err := os.Stat(p); err == nil && os.SameFile(fi, want) {
				return nil
			}
			break
		}
	}
	return []string{dir}
}

// closedDir returns the directory that prevents another user from starting r. Parents of a prefix do not count,
// because a bind mount bypasses them.
func closedDir(r Runtime) (string, bool) {
	for _, p := range []string{r.Path, r.Argv0} {
		for filepath.IsAbs(p) {
			if fi, err := os.Stat(p); err == nil && fi.Mode().Perm()&0o005 != 0o005 {
				return prefixOf(r, p), true
			}
			if prefixOf(r, p) == p { // the prefix itself, or a path outside of all prefixes
				break
			}
			p = filepath.Dir(p)
		}
	}
	return "", false
}

// prefixOf returns the prefix that contains p, or p.
func prefixOf(r Runtime, p string) string {
	for _, prefix := range r.Prefixes {
		if paths.Within(p, prefix) {
			return prefix
		}
	}
	return p
}

// isSystemPath reports whether a path is in the directories of every sandbox.
func isSystemPath(path string) bool {
	return slices.ContainsFunc(backends.SystemDirs, func(dir string) bool { return paths.Within(path, dir) })
}
