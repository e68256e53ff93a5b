package runtimes

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
)

// addLibraries adds the directories of shared libraries that a program names in its RUNPATH and the
// system's loader would not find: a Python whose libpython lies elsewhere.
func (v *view) addLibraries(program string) {
	if isSystemPath(program) {
		return
	}
	f, err := elf.Open(program)
	if err != nil {
		return // a script, or another system's program; running it will say so
	}
	defer f.Close()
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		if there, err := f.DynValue(tag); err != nil || len(there) == 0 {
			continue // its names are not read for nothing: Node's are 5 MB
		}
		lists, _ := f.DynString(tag)
		needed, _ := f.ImportedLibraries()
		for _, dir := range strings.Split(strings.Join(lists, ":"), ":") {
			v.addLibraryDir(expand(dir, program), needed)
		}
	}
}

// addLibraryDir adds a directory if one of the needed libraries lies in it.
func (v *view) addLibraryDir(dir string, needed []string) {
	if !filepath.IsAbs(dir) || v.isVisible(dir) || v.forbidden(dir) {
		return
	}
	for _, name := range needed {
		if fi, err := os.Stat(filepath.Join(dir, filepath.Base(name))); err == nil && fi.Mode().IsRegular() {
			v.addDir(dir)
			return
		}
	}
}

// expand returns a library directory of a program with its $ORIGIN replaced by the program's directory: ld.so(8).
func expand(dir, program string) string {
	origin := filepath.Dir(program)
	if dir == "" {
		return ""
	}
	return filepath.Clean(strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(dir))
}
