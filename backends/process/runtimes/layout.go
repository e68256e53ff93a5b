package runtimes

import (
	"os"
	"path/filepath"
	"strings"
)

// layout determines the parts of the host that a program needs besides the system directories.
func (f *finder) layout(path string) (Runtime, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Runtime{}, err
	}
	if err := safe(real); err != nil {
		return Runtime{}, err
	}
	r := Runtime{Path: real}
	if system(real) && system(path) {
		r.Argv0 = path
		return r, nil
	}
	v := newView(f.env.Home)
	hops := follow(path)
	env, err := f.venv(path, v)
	if err != nil {
		return Runtime{}, err
	}
	if err := v.tree(real); err != nil {
		return Runtime{}, err
	}
	v.libraries(real)
	for _, hop := range hops {
		v.alias(hop)
	}
	if env != nil {
		r.Why, r.Version = "virtual environment "+env.root, env.version
		r.Links = v.missing(hops)
	}
	r.Prefixes = v.prefixes()
	r.Argv0 = f.argv0(v, hops)
	return r, nil
}

// argv0 returns the first of the hops from the user's name for the program that exists inside.
func (f *finder) argv0(v *view, hops []string) string {
	if f.name == "shell" && !v.shows(hops[0]) {
		return filepath.Base(hops[0]) // bash and busybox use the base name alone
	}
	for _, hop := range hops {
		if v.shows(hop) {
			return hop
		}
	}
	return hops[len(hops)-1]
}

// follow lists a path and the paths it leads to while its last element is a link.
func follow(path string) []string {
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
