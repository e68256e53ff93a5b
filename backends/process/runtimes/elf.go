package runtimes

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
)

// libraries adds the directories of shared libraries that a program names in its RUNPATH and the
// system's loader would not find: a Python whose libpython lies elsewhere.
func (v *view) libraries(program string) {
	if system(program) {
		return
	}
	f, err := elf.Open(program)
	if err != nil {
		return // a script, or another system's program; running it will say so
	}
	defer f.Close()
	var needed []string
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		for _, list := range dynamic(f, tag) {
			if needed == nil {
				needed = dynamic(f, elf.DT_NEEDED)
			}
			for _, dir := range strings.Split(list, ":") {
				v.library(expand(dir, program), needed)
			}
		}
	}
}

// library adds a directory if one of the needed libraries lies in it.
func (v *view) library(dir string, needed []string) {
	if !filepath.IsAbs(dir) || v.shows(dir) || v.forbidden(dir) {
		return
	}
	for _, name := range needed {
		if fi, err := os.Stat(filepath.Join(dir, filepath.Base(name))); err == nil && fi.Mode().IsRegular() {
			v.add(dir)
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

// dynamic returns the strings of one tag without the rest of the string table: elf.File.DynString reads all of it, which
// for Node is 5 MB.
func dynamic(f *elf.File, tag elf.DynTag) []string {
	table, err := f.DynValue(elf.DT_STRTAB)
	if err != nil || len(table) == 0 {
		return nil
	}
	offsets, err := f.DynValue(tag)
	if err != nil {
		return nil
	}
	var out []string
	for _, off := range offsets {
		if s, ok := stringAt(f, table[0]+off); ok {
			out = append(out, s)
		}
	}
	return out
}

// stringAt reads a string of the loaded program, at most 4096 bytes.
func stringAt(f *elf.File, addr uint64) (string, bool) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr >= p.Vaddr+p.Filesz {
			continue
		}
		buf := make([]byte, min(4096, p.Vaddr+p.Filesz-addr))
		n, _ := p.ReadAt(buf, int64(addr-p.Vaddr))
		s, _, ok := bytes.Cut(buf[:n], []byte{0})
		return string(s), ok
	}
	return "", false
}
