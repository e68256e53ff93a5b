package host

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

// Program is the executable file for a command's first word.
type Program struct {
	Entry string   // where it was found: the real path of its directory, and its name
	Path  string   // the real file, with all links resolved
	Names []string // all of its names: of Entry, and of the links on the way
	file  fs.FileInfo
}

const maxLinks = 40

// FindProgram returns the program of this name: from a directory of the path, or an absolute path. The error is a
// *Refusal if there is none, or if other users than root and our own could change it.
func (p *Policy) FindProgram(name string) (Program, error) {
	entry, err := p.entry(name)
	if err != nil {
		return Program{}, err
	}
	return p.resolveEntry(entry)
}

func (p *Policy) search() []string {
	if p.path == nil {
		return defaultPath
	}
	return p.path
}

func (p *Policy) entry(name string) (string, error) {
	if filepath.Base(name) != name {
		if !filepath.IsAbs(name) || filepath.Clean(name) != name {
			return "", refuse("name a program by its name alone, or by its whole path", "%q is neither a program's name nor an absolute path", name)
		}
		return name, nil
	}
	for _, dir := range p.search() {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", refuse("name one that is installed: programs are looked for in the system's directories only", "there is no program %q", name)
}

// resolveEntry follows the links, and checks which users could change each.
func (p *Policy) resolveEntry(entry string) (prog Program, err error) {
	const remedy = "name a program that only root, or the user of this server, can change"
	at := entry
	for range maxLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(at))
		if err != nil {
			return prog, refuse(remedy, "the program %q can't be used: %v", entry, err)
		}
		at = filepath.Join(dir, filepath.Base(at))
		prog.Entry = cmp.Or(prog.Entry, at)
		prog.Names = append(prog.Names, filepath.Base(at))
		info, err := os.Lstat(at)
		if err != nil {
			return prog, refuse(remedy, "the program %q can't be used: %v", entry, err)
		}
		if why := p.describeDoubt(at, info); why != "" {
			return prog, refuse(remedy, "the program %q is not to be trusted: %s", entry, why)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			prog.Path, prog.file = at, info
			if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
				return prog, refuse("name a program", "%q is not a program", at)
			}
			slices.Sort(prog.Names)
			prog.Names = slices.Compact(prog.Names)
			return prog, nil
		}
		to, err := os.Readlink(at)
		if err != nil {
			return prog, refuse(remedy, "the program %q can't be used: %v", entry, err)
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		at = to
	}
	return prog, refuse(remedy, "the program %q is behind too many links", entry)
}

// describeDoubt describes why another user could replace this file, or returns "".
func (p *Policy) describeDoubt(path string, info fs.FileInfo) string {
	if slices.ContainsFunc(p.roots, func(r files.Root) bool { return r.Write && within(filepath.Dir(path), r.Path) }) {
		return "it lies where agents may write"
	}
	if why := changeable(info); why != "" && info.Mode()&fs.ModeSymlink == 0 {
		return path + " " + why
	}
	own := filepath.Dir(path)
	for dir := own; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return err.Error()
		}
		if why := changeable(info); why != "" && (dir == own || !isSticky(info)) {
			return "the directory " + dir + " " + why
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// changeable describes which other users could change a file or directory; "" if only root and our own user could. A
// sticky bit does not protect the program's directory: new names can be created there.
func changeable(info fs.FileInfo) string {
	switch {
	case statefile.IsForeign(info):
		return "belongs to another user"
	case info.Mode()&0o022 != 0:
		return "can be written by others"
	}
	return ""
}

// isSticky reports whether other users may create names in a directory of root's or ours, but not remove existing
// ones, as in /tmp.
func isSticky(info fs.FileInfo) bool {
	return info.Mode()&fs.ModeSticky != 0 && !statefile.IsForeign(info)
}

// isUnchanged reports whether the program is still the inspected file.
func (prog Program) isUnchanged() bool {
	now, err := os.Lstat(prog.Path)
	return err == nil && os.SameFile(now, prog.file) && now.Size() == prog.file.Size() && now.ModTime().Equal(prog.file.ModTime()) &&
		now.Mode() == prog.file.Mode()
}
