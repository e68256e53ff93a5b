package runtimes

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// environment is a Python virtual environment.
type environment struct{ root, home, version string }

// venv returns the virtual environment of a Python, and adds the directories that it needs to v.
func (f *finder) venv(path string, v *view) (*environment, error) {
	if f.name != "python" {
		return nil, nil
	}
	root := filepath.Dir(filepath.Dir(path))
	env, err := readVenv(root)
	if err != nil || env == nil {
		return nil, err
	}
	if v.forbidden(root) {
		return nil, fmt.Errorf("%s: a virtual environment that is the home directory, or holds it, can't be shown: make one in a directory of its own", root)
	}
	v.add(root)
	if real, err := filepath.EvalSymlinks(root); err == nil && !v.forbidden(real) {
		v.add(real)
	}
	if env.home != "" && !system(env.home) {
		base := filepath.Join(env.home, "python3")
		if err := v.tree(base); err != nil {
			return nil, err
		}
		if real, err := filepath.EvalSymlinks(base); err == nil {
			if err := v.tree(real); err != nil {
				return nil, err
			}
			v.libraries(real)
			v.alias(base)
		}
	}
	return env, nil
}

// readVenv reads pyvenv.cfg: lines of "key = value". Without the file there is no environment.
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
