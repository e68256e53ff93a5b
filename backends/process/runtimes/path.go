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

// candidate is a possible program, and the way it was found.
type candidate struct{ path, how string }

// candidates yields programs in the order in which a user would expect them: an activated virtual
// environment, PATH, the installations of version managers that a non-interactive shell does not
// see, and the system's own directories.
func (f *finder) candidates() iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		if v := f.env.get("VIRTUAL_ENV"); v != "" && f.name == "python" {
			if !f.inDir(filepath.Join(v, "bin"), "VIRTUAL_ENV", yield) {
				return
			}
		}
		for _, name := range f.programs {
			for _, dir := range filepath.SplitList(f.env.Path) {
				if !f.program(dir, name, "on PATH in "+dir, yield) {
					return
				}
			}
		}
		for _, c := range f.managed() {
			if !yield(c) {
				return
			}
		}
		for _, dir := range filepath.SplitList(SystemPath) {
			if !f.inDir(dir, "in "+dir+", which is not on PATH", yield) {
				return
			}
		}
	}
}

// inDir yields the language's programs in dir, and reports whether to go on.
func (f *finder) inDir(dir, how string, yield func(candidate) bool) bool {
	return !slices.ContainsFunc(f.programs, func(name string) bool { return !f.program(dir, name, how, yield) })
}

// program yields dir/name if it is a program that no other user could have put there.
func (f *finder) program(dir, name, how string, yield func(candidate) bool) bool {
	path := filepath.Join(dir, name)
	if !filepath.IsAbs(dir) {
		// "", "." and relative entries mean the working directory, which is where downloaded and
		// generated files lie.
		if _, err := os.Stat(path); err == nil {
			f.note("passed over %s: its PATH entry is relative", path)
		}
		return true
	}
	if !executable(path) {
		return true
	}
	if err := safe(dir, path); err != nil {
		f.note("passed over %v", err)
		return true
	}
	return yield(candidate{path, how})
}

// safe refuses programs that any user of the host can replace.
func safe(paths ...string) error {
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

// executable reports whether path is a regular file that somebody may execute, after symbolic links.
func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0
}

// pathDirs returns the directories before SystemPath with which r is the first found by its names.
func (f *finder) pathDirs(r Runtime) []string {
	if !filepath.IsAbs(r.Argv0) {
		return nil
	}
	dir := filepath.Dir(r.Argv0)
	if system(dir) && !system(r.Path) {
		// /usr/local/bin/node is a link to /opt/node/bin/node; npm may stand only there.
		dir = filepath.Dir(r.Path)
	}
	if !system(dir) {
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
		if p := filepath.Join(d, name); executable(p) {
			if fi, err := os.Stat(p); err == nil && os.SameFile(fi, want) {
				return nil
			}
			break
		}
	}
	return []string{dir}
}

// unreadable returns the directory that keeps a user without files from starting r. Parents of a prefix do not count,
// because a bind mount does not pass through them.
func unreadable(r Runtime) (string, bool) {
	for _, p := range []string{r.Path, r.Argv0} {
		for filepath.IsAbs(p) {
			fi, err := os.Stat(p)
			if err == nil && fi.Mode().Perm()&0o005 != 0o005 {
				return top(r, p), true
			}
			if top(r, p) == p { // the prefix itself, or nothing that a prefix holds
				break
			}
			p = filepath.Dir(p)
		}
	}
	return "", false
}

// top returns the prefix that contains p, or p.
func top(r Runtime, p string) string {
	for _, prefix := range r.Prefixes {
		if paths.Within(p, prefix) {
			return prefix
		}
	}
	return p
}

// system reports whether a path lies in the directories that every sandbox shows.
func system(path string) bool {
	return slices.ContainsFunc(backends.SystemDirs, func(dir string) bool { return paths.Within(path, dir) })
}
