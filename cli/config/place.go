package config

import (
	"os"
	"path/filepath"
	"strings"
)

// environment makes a map; the last of several equal names counts, as in os/exec.
func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if name, text, ok := strings.Cut(kv, "="); ok && name != "" {
			m[name] = text
		}
	}
	return m
}

// home returns the user's home directory, "" when it is not known.
func (l *loader) home() string {
	for _, name := range []string{"HOME", "USERPROFILE"} { // the second one is Windows'
		if dir := l.env[name]; filepath.IsAbs(dir) {
			return dir
		}
	}
	return ""
}

// xdg returns a base directory, "" when it is not known. The XDG specification wants relative paths
// in these variables to be ignored.
func (l *loader) xdg(name, underHome string) string {
	if dir := l.env[name]; filepath.IsAbs(dir) {
		return dir
	}
	if home := l.home(); home != "" {
		return filepath.Join(home, filepath.FromSlash(underHome))
	}
	return ""
}

// workDir is what relative paths on the command line mean, "" when the directory is gone.
func workDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}
