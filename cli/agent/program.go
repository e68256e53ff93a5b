package agent

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// programMounts returns what a sandbox must show besides the system's directories, read-only and where it is here, for a
// program to run: its package with those beside it, its Python environment, or the file alone.
func programMounts(program string) (all []backends.Mount) {
	var dirs []string
	before, _, isNode := strings.Cut(filepath.ToSlash(program), "/node_modules/")
	environment := filepath.Dir(filepath.Dir(program))
	base, isPython := pythonBase(environment)
	switch {
	case isNode:
		dirs = []string{filepath.Join(filepath.FromSlash(before), "node_modules")}
	case isPython:
		dirs = []string{environment, base}
	default:
		dirs = []string{program}
	}
	for _, dir := range dirs {
		inSystem := slices.ContainsFunc(backends.SystemDirs, func(system string) bool { return paths.Within(dir, system) })
		if dir != "" && !inSystem {
			all = append(all, backends.Mount{Host: dir, Inside: dir})
		}
	}
	return all
}

// pythonBase reports whether dir is a Python environment (PEP 405), and returns the installation below it.
func pythonBase(dir string) (base string, is bool) {
	f, err := os.Open(filepath.Join(dir, "pyvenv.cfg"))
	if err != nil {
		return "", false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok && strings.TrimSpace(key) == "home" {
			if bin, err := filepath.EvalSymlinks(strings.TrimSpace(value)); err == nil {
				return filepath.Dir(bin), true
			}
		}
	}
	return "", true
}
