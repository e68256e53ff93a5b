package runtimes

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
)

// addLibraries adds the directories of shared libraries that a program names in its RUNPATH and that the system's
// loader would not find, for a Python whose libpython is elsewhere.
func (v *view) addLibraries(program string) {
	if isSystemPath(program) {
		return
	}
	f, err := elf.Open(program)
	if err != nil {
		return // a script, or another system's program; its execution will fail
	}
	defer f.Close()
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		if there, err := f.DynValue(tag); err != nil || len(there) == 0 {
			continue // parsing is not free: Node's symbols take 5 MB
		}
		lists, _ := f.DynString(tag)
		needed, _ := f.ImportedLibraries()
		for _, dir := range strings.Split(strings.Join(lists, ":"), ":") {
			v.addLibraryDir(expandOrigin(dir, program), needed)
		}
	}
}

// addLibraryDir adds a directory if it contains one of the needed libraries.
func (v *view) addLibraryDir(dir string, needed []string) {
	if !filepath.IsAbs(dir) || v.isVisible(dir) || v.isForbidden(dir) {
		return
	}
	for _, name := range needed {
		if fi, err := os.Stat(filepath.Join(dir, filepath.Base(name))); err == nil && fi.Mode().IsRegular() {
			v.addDir(dir)
			return
		}
	}
}

// expandOrigin returns a program's library directory with $ORIGIN replaced by the program's directory: ld.so(8).
func expandOrigin(dir, program string) string {
	origin := filepath.Dir(program)
	if dir == "" {
		return ""
	}
	return filepath.Clean(strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(dir))
}
