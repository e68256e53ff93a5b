package runtimes

import (
	"fmt"
	"path/filepath"
	"strings"
)

// manager is pyenv, or its counterpart for Node, which differs in names only.
type manager struct {
	name, root, version, file, hidden string
}

func pyenv() manager {
	return manager{"pyenv", "PYENV_ROOT", "PYENV_VERSION", ".python-version", ".pyenv"}
}

func nodenv() manager {
	return manager{"nodenv", "NODENV_ROOT", "NODENV_VERSION", ".node-version", ".nodenv"}
}

// versions resolves a shim of pyenv or nodenv as they do: the first of the chosen versions that
// has the program.
func (f *finder) versions(shim string, m manager) (target, how string, err error) {
	root := filepath.Dir(filepath.Dir(shim))
	if filepath.Base(filepath.Dir(shim)) != "shims" || !isDir(filepath.Join(root, "versions")) {
		root = or(f.env.get(m.root), f.home(m.hidden))
	}
	chosen, from := f.chosen(m, root)
	for _, want := range chosen {
		if want == "system" {
			break
		}
		version, ok := installed(filepath.Join(root, "versions"), strings.TrimPrefix(want, "python-"))
		if !ok {
			f.note("%s has no version %s, which %s asks for", m.name, want, from)
			continue
		}
		target := filepath.Join(root, "versions", version, "bin", filepath.Base(shim))
		if executable(target) {
			return target, fmt.Sprintf("%s %s, chosen by %s", m.name, version, from), nil
		}
	}
	return "", "", fmt.Errorf("%s chooses no version with %s (see %s versions)", m.name, filepath.Base(shim), m.name)
}

// chosen returns the versions that pyenv would use, and the variable or file that selects them.
func (f *finder) chosen(m manager, root string) (versions []string, from string) {
	if v := f.env.get(m.version); v != "" {
		return strings.Split(v, ":"), m.version
	}
	files := []string{}
	for dir := range above(f.env.Dir) {
		files = append(files, filepath.Join(dir, m.file))
	}
	for _, path := range append(files, filepath.Join(root, "version")) {
		text, ok := readSmall(path)
		if !ok {
			continue
		}
		for _, w := range words(text) {
			versions = append(versions, w[0])
		}
		if len(versions) > 0 {
			return versions, path
		}
	}
	return []string{"system"}, "default"
}
