package runtimes

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// view collects the host directories that will be mounted.
type view struct {
	homes []string // the home directory, literally and resolved
	dirs  []string
}

// newView returns an empty view that protects a home directory; a relative one counts as unknown.
func newView(home string) *view {
	v := &view{}
	if filepath.IsAbs(home) {
		v.homes = append(v.homes, filepath.Clean(home))
		if real, err := filepath.EvalSymlinks(home); err == nil && real != v.homes[0] {
			v.homes = append(v.homes, real)
		}
	}
	return v
}

// isForbidden reports whether showing dir would show the complete home directory or more.
func (v *view) isForbidden(dir string) bool {
	return dir == "/" || slices.ContainsFunc(v.homes, func(home string) bool { return paths.Within(home, dir) })
}

// isShared reports whether dir contains more than one program's files, so that showing it for an interpreter would
// show too much: /opt, ~/.local.
func (v *view) isShared(dir string) bool {
	return v.isForbidden(dir) || strings.Count(dir, "/") < 2 ||
		slices.ContainsFunc(v.homes, func(home string) bool { return dir == filepath.Join(home, ".local") })
}

// addDir adds a directory, unless it is a system directory, which all sandboxes have.
func (v *view) addDir(dir string) {
	if !isSystemPath(dir) && !slices.Contains(v.dirs, dir) {
		v.dirs = append(v.dirs, dir)
	}
}

// addTree adds the directory of a program's installation.
func (v *view) addTree(program string) error {
	if isSystemPath(program) {
		return nil
	}
	root := treeOf(program)
	if !v.isShared(root) || isOwnInstallation(root) && !v.isForbidden(root) {
		v.addDir(root)
		return nil
	}
	found := false
	for _, name := range []string{"bin", "lib", "lib64"} {
		dir := filepath.Join(root, name)
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() && !v.isForbidden(dir) {
			v.addDir(dir)
			found = true
		}
	}
	if !found || !v.isVisible(program) {
		return fmt.Errorf("%s is in %s, which programs can't see: install it in a directory of its own", program, root)
	}
	return nil
}

// treeOf returns the directory of one complete installation.
func treeOf(program string) string {
	for _, store := range []string{"/nix/store", "/gnu/store"} {
		if paths.Within(program, store) {
			return store // packages there refer to many others by their full paths
		}
	}
	dir := filepath.Dir(program)
	// Homebrew's packages find each other through <prefix>/opt.
	if before, _, ok := strings.Cut(dir+"/", "/Cellar/"); ok && before != "" {
		return before
	}
	if name := filepath.Base(dir); name == "bin" || name == "sbin" {
		return filepath.Dir(dir)
	}
	return dir
}

// isOwnInstallation reports whether a directory has the marks of a single installation.
func isOwnInstallation(dir string) bool {
	for _, mark := range []string{"pyvenv.cfg", "conda-meta"} {
		if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
			return true
		}
	}
	return paths.Within(dir, "/nix/store") || paths.Within(dir, "/gnu/store")
}

// addAlias also adds the name under which path reaches a tree, if that is a link.
func (v *view) addAlias(path string) {
	root := treeOf(path)
	if isSystemPath(path) || v.isVisible(path) || v.isForbidden(root) {
		return
	}
	if real, err := filepath.EvalSymlinks(root); err == nil && slices.Contains(v.dirs, real) {
		v.addDir(root)
	}
}

// missingLinks returns the links among hops that no mounted directory contains.
func (v *view) missingLinks(hops []string) map[string]string {
	var links map[string]string
	for i := range len(hops) - 1 {
		if v.isVisible(hops[i]) {
			continue
		}
		if links == nil {
			links = map[string]string{}
		}
		links[hops[i]] = hops[i+1]
	}
	return links
}

// isVisible reports whether a path is in the view or a system directory.
func (v *view) isVisible(path string) bool {
	return isSystemPath(path) || slices.ContainsFunc(v.dirs, func(dir string) bool { return paths.Within(path, dir) })
}

// prefixes returns the directories, without those inside others.
func (v *view) prefixes() []string {
	slices.Sort(v.dirs)
	var out []string
	for _, dir := range v.dirs {
		if !slices.ContainsFunc(out, func(o string) bool { return paths.Within(dir, o) }) {
			out = append(out, dir)
		}
	}
	return out
}

// Merge merges several interpreters under a name, without a program of its own.
func Merge(name string, each []Runtime) Runtime {
	all := Runtime{Name: name, Links: map[string]string{}}
	v := &view{}
	for _, r := range each {
		v.dirs = append(v.dirs, r.Prefixes...)
		for _, dir := range r.PathDirs {
			if !slices.Contains(all.PathDirs, dir) {
				all.PathDirs = append(all.PathDirs, dir)
			}
		}
		maps.Copy(all.Links, r.Links)
	}
	all.Prefixes = v.prefixes()
	maps.DeleteFunc(all.Links, func(at, _ string) bool { return v.isVisible(at) })
	return all
}
