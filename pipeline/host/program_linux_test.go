package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

// ownDirectory is one that only root and we can change, whatever the umask is.
func ownDirectory(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	return dir
}

func write(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/true\n"), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // the umask is somebody else's
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	dir := ownDirectory(t)
	bin, open := filepath.Join(dir, "bin"), filepath.Join(dir, "open")
	must(t, os.Mkdir(bin, 0o755))
	must(t, os.Mkdir(open, 0o755))
	must(t, os.Chmod(open, 0o777))
	for _, f := range []string{"deploy", "python3", "perl5.36.0", "bash"} {
		write(t, filepath.Join(bin, f), 0o755)
	}
	write(t, filepath.Join(bin, "writable"), 0o775)
	write(t, filepath.Join(bin, "notes"), 0o644)
	write(t, filepath.Join(open, "tool"), 0o755)
	must(t, os.Symlink(filepath.Join(bin, "python3"), filepath.Join(bin, "report")))
	must(t, os.Symlink("report", filepath.Join(bin, "again")))
	must(t, os.Symlink(filepath.Join(open, "tool"), filepath.Join(bin, "elsewhere")))
	must(t, os.Symlink("loop", filepath.Join(bin, "loop")))
	must(t, os.Link(filepath.Join(bin, "perl5.36.0"), filepath.Join(bin, "harmless")))
	p, err := NewPolicy(Rules{Path: []string{bin}, Write: []string{filepath.Join(dir, "written")}})
	must(t, err)
	public := filepath.Join(dir, "public") // as /tmp is
	must(t, os.MkdirAll(filepath.Join(public, "mine"), 0o755))
	must(t, os.Chmod(public, 0o777|os.ModeSticky))
	write(t, filepath.Join(public, "tool"), 0o755)
	write(t, filepath.Join(public, "mine", "tool"), 0o755)
	tests := []struct{ name, program, refused string }{
		{"by its name", "deploy", ""},
		{"by its path", filepath.Join(bin, "deploy"), ""},
		{"a link to an interpreter", "report", ""},
		{"links to an interpreter", "again", ""},
		{"a hard link to an interpreter", "harmless", ""},
		{"others may write it", "writable", "written by others"},
		{"others may write its directory", filepath.Join(open, "tool"), "written by others"},
		{"a link to where others may write", "elsewhere", "written by others"},
		{"in a public directory", filepath.Join(public, "tool"), "written by others"},
		{"in a directory of ours in it", filepath.Join(public, "mine", "tool"), ""},
		{"a loop", "loop", "no program"},
		{"no program", "notes", "no program"},
		{"a directory", "/usr", "is not a program"},
		{"relative", "./deploy", "neither"},
		{"below here", "bin/deploy", "neither"},
		{"with .. in it", bin + "/../bin/deploy", "neither"},
		{"in no directory of the path", "env", "no program"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			words := Words{tt.program}
			_, err := p.Decide(Command{Words: words, Directory: "/"}, []Pattern{Exactly(words)})
			if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("got %v, want %q", err, tt.refused)
			}
		})
	}
	prog, err := p.FindProgram("again")
	if want := []string{"again", "python3", "report"}; err != nil || !slices.Equal(prog.Names, want) {
		t.Errorf("got the names %v, %v; want %v", prog.Names, err, want)
	}
	if _, err := p.With([]files.Root{{Path: bin, Write: true}}).FindProgram("deploy"); err == nil ||
		!strings.Contains(err.Error(), "agents may write") {
		t.Errorf("a program runs from where an agent may write: %v", err)
	}
}

// TestPatternsMeanAFile has two programs of one name, and two names of one program.
func TestPatternsMeanAFile(t *testing.T) {
	dir := ownDirectory(t)
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	must(t, os.Mkdir(one, 0o755))
	must(t, os.Mkdir(two, 0o755))
	write(t, filepath.Join(one, "deploy"), 0o755)
	write(t, filepath.Join(two, "deploy"), 0o755)
	must(t, os.Symlink("deploy", filepath.Join(one, "undeploy")))
	p, err := NewPolicy(Rules{Path: []string{one, two}, Allowed: []string{"deploy x"}})
	must(t, err)
	for program, want := range map[string]bool{"deploy": true, filepath.Join(one, "deploy"): true, filepath.Join(two, "deploy"): false,
		"undeploy": false} {
		if _, err := p.Decide(Command{Words: Words{program, "x"}, Directory: "/"}, nil); (err == nil) != want {
			t.Errorf("%s: %v, want it allowed: %v", program, err, want)
		}
	}
	prog, err := p.FindProgram("deploy")
	must(t, err)
	if !prog.isUnchanged() {
		t.Error("the program is not what it was, and nobody has changed it")
	}
	must(t, os.Remove(filepath.Join(one, "deploy")))
	write(t, filepath.Join(one, "deploy"), 0o755)
	if prog.isUnchanged() {
		t.Error("another file under the name is taken for the program")
	}
}

func TestDirectory(t *testing.T) {
	dir := ownDirectory(t)
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	must(t, os.MkdirAll(filepath.Join(in, "sub"), 0o755))
	must(t, os.Mkdir(out, 0o755))
	must(t, os.Symlink(out, filepath.Join(in, "link")))
	must(t, os.Symlink("sub", filepath.Join(in, "inner")))
	p, err := NewPolicy(Rules{Read: []string{in}})
	must(t, err)
	for asked, want := range map[string]string{
		"": in, in: in, in + "/sub": in + "/sub", in + "/inner": in + "/sub", in + "/link": "", out: "", in + "/../out": "", "/": "", "sub": "",
		in + "x": "", in + "/none": "",
	} {
		if got, err := p.Directory(asked); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", asked, got, err, want)
		}
	}
}

func TestSafeList(t *testing.T) {
	dir := ownDirectory(t)
	must(t, os.MkdirAll(filepath.Join(dir, "in", "sub"), 0o755))
	must(t, os.Symlink("/etc", filepath.Join(dir, "in", "link")))
	in := filepath.Join(dir, "in")
	p, err := NewPolicy(Rules{Allowed: []string{Safe}, Read: []string{in}})
	must(t, err)
	for command, want := range map[string]bool{
		"ls": true, "ls -la": true, "ls sub": false, "ls /etc": false, "ls -L": false, "du -sh": true, "du --files0-from=x": false,
		"stat x": false, "git log": false,
		"uname -a": true, "id": true, "id root": false, "date": true, "date -s x": false, "date -f x": false, "df -h": true, "df /etc": false,
		"whoami": true, "ps aux": true,
		"ps auxe": false, "hostname": true, "hostname x": false, "cat sub": false, "env": false, "git commit -m x": false, "git branch x": false,
	} {
		words, err := Parse(command)
		must(t, err)
		if _, err := p.Decide(Command{Words: words, Directory: in}, nil); (err == nil) != want {
			t.Errorf("%s: %v, want it allowed: %v", command, err, want)
		}
	}
	nowhere, err := NewPolicy(Rules{Allowed: []string{Safe}})
	must(t, err)
	for command, want := range map[string]bool{"uname": true, "ls": false, "du -sh": false} {
		words, _ := Parse(command)
		if _, err := nowhere.Decide(Command{Words: words, Directory: "/"}, nil); (err == nil) != want {
			t.Errorf("%s where no directory is allowed: %v, want it allowed: %v", command, err, want)
		}
	}
	none, err := NewPolicy(Rules{})
	must(t, err)
	if _, err := none.Decide(Command{Words: Words{"uname"}, Directory: "/"}, nil); err == nil {
		t.Error("the safe list is allowed by nobody, and works")
	}
}
