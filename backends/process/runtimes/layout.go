package runtimes

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// layout determines the host paths that a program needs in addition to the system directories.
func (f *finder) layout(path string) (Runtime, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Runtime{}, err
	}
	if err := checkSafe(real); err != nil {
		return Runtime{}, err
	}
	r := Runtime{Path: real}
	if isSystemPath(real) && isSystemPath(path) {
		r.Argv0 = path
		return r, nil
	}
	v := newView(f.env.Home)
	hops := linkHops(path)
	env, err := f.venv(path, v)
	if err != nil {
		return Runtime{}, err
	}
	if err := v.addTree(real); err != nil {
		return Runtime{}, err
	}
	v.addLibraries(real)
	for _, hop := range hops {
		v.addAlias(hop)
	}
	if env != nil {
		r.Why, r.Version = "virtual environment "+env.root, env.version
		r.Links = v.missingLinks(hops)
	}
	r.Prefixes = v.prefixes()
	r.Argv0 = f.argv0(v, hops)
	return r, nil
}

// argv0 returns the first of the hops from the user's name for the program that exists inside.
func (f *finder) argv0(v *view, hops []string) string {
	if f.name == "shell" && !v.isVisible(hops[0]) {
		return filepath.Base(hops[0]) // bash and busybox use only the base name
	}
	for _, hop := range hops {
		if v.isVisible(hop) {
			return hop
		}
	}
	return hops[len(hops)-1]
}

// linkHops lists a path and its successive targets while the last element is a link.
func linkHops(path string) []string {
	hops := []string{path}
	for range 40 { // the kernel's own limit
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			// ".." after a directory that is a link leaves the link's target.
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				break
			}
			if !strings.Contains(target, "..") {
				dir = filepath.Dir(path)
			}
			target = filepath.Join(dir, target)
		}
		path = filepath.Clean(target)
		hops = append(hops, path)
	}
	return hops
}

// environment is a Python virtual environment.
type environment struct{ root, home, version string }

// venv returns the virtual environment of a Python, and adds its directories to v.
func (f *finder) venv(path string, v *view) (*environment, error) {
	if f.name != "python" {
		return nil, nil
	}
	root := filepath.Dir(filepath.Dir(path))
	env, err := readVenv(root)
	if err != nil || env == nil {
		return nil, err
	}
	if v.isForbidden(root) {
		return nil, fmt.Errorf("%s: a virtual environment that is the home directory, or contains it, can't be mounted: make one in "+
			"a directory of its own", root)
	}
	v.addDir(root)
	if real, err := filepath.EvalSymlinks(root); err == nil && !v.isForbidden(real) {
		v.addDir(real)
	}
	if env.home != "" && !isSystemPath(env.home) {
		base := filepath.Join(env.home, "python3")
		if err := v.addTree(base); err != nil {
			return nil, err
		}
		if real, err := filepath.EvalSymlinks(base); err == nil {
			if err := v.addTree(real); err != nil {
				return nil, err
			}
			v.addLibraries(real)
			v.addAlias(base)
		}
	}
	return env, nil
}

// readVenv reads pyvenv.cfg: lines of "key = value". Without that file, it returns nil.
func readVenv(root string) (*environment, error) {
	file, err := os.Open(filepath.Join(root, "pyvenv.cfg"))
	if err != nil {
		return nil, nil
	}
	defer file.Close()
	env := &environment{root: root}
	for s := bufio.NewScanner(file); s.Scan(); {
		key, value, ok := strings.Cut(s.Text(), "=")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "home":
			if !filepath.IsAbs(value) {
				return nil, fmt.Errorf("%s/pyvenv.cfg: home %q is not absolute", root, value)
			}
			env.home = filepath.Clean(value)
		case "version", "version_info":
			env.version = value
		}
	}
	return env, nil
}
