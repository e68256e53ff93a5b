// Package paths compares paths by their text alone: it follows no links.
package paths

import (
	"path/filepath"
	"strings"
)

// Within reports whether name is dir or lies in it. A relative path lies in "." unless it leads out of it, and
// never in an absolute one.
func Within(name, dir string) bool {
	name, dir = normalize(name), normalize(dir)
	return name == dir || below(name, dir)
}

// Below is Within, but false for dir itself.
func Below(name, dir string) bool { return below(normalize(name), normalize(dir)) }

func below(name, dir string) bool {
	rest, ok := name, !filepath.IsAbs(name) && name[0] != '/' && name != "."
	if dir != "." {
		rest, ok = strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	}
	return ok && rest != "" && rest != ".." && !strings.HasPrefix(rest, "../")
}

// normalize returns a path in comparable form: clean, with slashes, and in lower case on systems with volume
// letters.
func normalize(name string) string {
	name = filepath.ToSlash(filepath.Clean(name))
	if filepath.VolumeName(name) != "" {
		return strings.ToLower(name)
	}
	return name
}
