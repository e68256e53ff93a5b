package signer

import (
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// badName says why no file can be saved under name, or "". Backends list clean relative names, but
// the names in an archive that a container engine sends are what its author wanted.
func badName(name string) string {
	switch {
	case !filepath.IsLocal(name) || path.Clean(name) != name || name == ".":
		return "its name leaves the folder"
	case strings.ContainsRune(name, 0):
		return "its name has a NUL byte"
	case runtime.GOOS == "windows" && !windowsName(name):
		return "its name can't be used on Windows"
	}
	return ""
}

// windowsName refuses what Windows forbids, and the dots and spaces that it silently takes off.
func windowsName(name string) bool {
	for elem := range strings.SplitSeq(name, "/") {
		if strings.TrimRight(elem, ". ") != elem {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`<>:"|?*\`, r) })
}
