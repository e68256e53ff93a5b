package runtimes

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// findInstalled returns the name of the directory in dir for a version: itself, else the newest that begins with it
// ("3.12" is 3.12.7), else, for "latest" and the like, the newest of all. A version file may come from anywhere, so
// a name never leads out of dir (CVE-2022-35861).
func findInstalled(dir, want string) (string, bool) {
	if filepath.IsLocal(want) && want != "." && isDir(filepath.Join(dir, want)) {
		return filepath.Clean(want), true
	}
	any := slices.Contains([]string{"", "latest", "lts", "node", "stable"}, want)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false
	}
	best := ""
	for _, e := range entries {
		name := e.Name()
		match := strings.HasPrefix(name, want+".") || strings.HasPrefix(name, want+"-") ||
			strings.HasPrefix(name, "v"+want+".")
		if !any && !match || !isDir(filepath.Join(dir, name)) {
			continue
		}
		if best == "" || compareVersions(name, best) > 0 {
			best = name
		}
	}
	return best, best != ""
}

var (
	number  = lazy.Regexp(`\d+`)
	preview = lazy.Regexp(`\d(a|b|rc|t|-dev|-nightly)(\d|-|$)`) // 3.13.0rc1, 3.13.0t
)

// compareVersions orders "3.9.1" before "3.12.0", and "3.13.0rc1" or "3.13-dev" before any release.
func compareVersions(a, b string) int {
	if early := preview().MatchString(a); early != preview().MatchString(b) {
		return map[bool]int{true: -1, false: 1}[early]
	}
	byNumber := func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
	return cmp.Or(slices.CompareFunc(number().FindAllString(a, -1), number().FindAllString(b, -1), byNumber), cmp.Compare(a, b))
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}
