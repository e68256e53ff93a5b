package runtimes

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// installed returns the directory name in dir that a version stands for: itself, else the newest
// that begins with it ("3.12" is 3.12.7), else, for "latest" and the like, the newest of all. A
// version file may come from anywhere, so a name never leads out of dir (CVE-2022-35861).
func installed(dir, want string) (string, bool) {
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

// compareVersions orders "3.9.1" before "3.12.0", and "3.13.0rc1" or "3.13-dev" before any
// finished version.
func compareVersions(a, b string) int {
	na, pa := numbers(a)
	nb, pb := numbers(b)
	if pa != pb {
		if pa {
			return -1
		}
		return 1
	}
	if c := slices.Compare(na, nb); c != 0 {
		return c
	}
	return cmp.Compare(a, b)
}

// numbers returns a version's numbers, and whether it is a preview.
func numbers(version string) (n []int, preview bool) {
	version = strings.TrimPrefix(version, "v")
	if i := strings.IndexAny(version, "0123456789"); i > 0 {
		version = version[i:] // cpython-3.12.5-linux-x86_64-gnu
	}
	for _, part := range strings.FieldsFunc(version, func(r rune) bool { return r == '.' || r == '-' || r == '+' }) {
		digits := part
		if i := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
			digits = part[:i]
		}
		x, err := strconv.Atoi(digits)
		if err != nil {
			preview = preview || part == "dev" || part == "nightly"
			break
		}
		n = append(n, x)
		if rest := part[len(digits):]; rest != "" {
			preview = true // 0rc1, 0b3, 13t
			break
		}
	}
	return n, preview
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}
