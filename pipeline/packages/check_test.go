package packages

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		language string
		good     bool
		specs    []string
	}{
		{"python", true, []string{"requests", "requests==2.32.3", "uvicorn[standard]>=0.30,<1", "a.b_c-d ~= 1.0", "x[a,b] != 2.*",
			"torch==2.1.0+cpu", "pkg===1!2.0"}},
		{"python", false, []string{"", " ", "-r", "-rfile", "--index-url=http://x", "-e", "./dir", "../dir", "/abs", "~/x", "dir/", "x.whl",
			"X-1.0.TAR.GZ", "http://x/y.whl",
			"git+https://x/y", "x @ http://y", "x@1.0", "x; python_version<'3'", "x --hash=sha256:00", "x==", "x\n-r y", "x\x00", "x y", "é", ".",
			"..", "x==1 --pre", "x-", "file:x",
			strings.Repeat("a", 300)}},
		{"node", true, []string{"left-pad", "left-pad@1.3.0", "@types/node", "@types/node@^20", "a@>=1 <2", "a@1.x || 2", "a@latest",
			"JSONStream", "a@~1.2", "a@*"}},
		{"node", false, []string{"", "-g", "--registry=http://x", "./dir", "../dir", "/abs", "~/x", "user/repo", "github:user/repo", "a@npm:b",
			"a@file:x", "a@http://x", "a@git+ssh://x",
			"a.tgz", "a@b.tgz", "a.tar.gz", "@scope", "@/x", "@a/b/c", "a@.", "a@..", "a@~/x", "a@../x", "a@user/repo", ".hidden", "_x", "a\n",
			"a\x00", "a#b", "a@1#b", "a%2fb", "."}},
	}
	for _, tt := range tests {
		for _, spec := range tt.specs {
			if err := Check(tt.language, []string{spec}); (err == nil) != tt.good {
				t.Errorf("%s %q: got %v", tt.language, spec, err)
			}
		}
	}
	for name, specs := range map[string][]string{"none": nil, "too many": make([]string, 101)} {
		if Check("python", specs) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if Check("shell", []string{"x"}) == nil {
		t.Error("packages for the shell")
	}
}

// FuzzCheck: nothing that passes could be an option, a path, an address or more than one word to a shell.
func FuzzCheck(f *testing.F) {
	f.Add("requests[socks]>=2,<3")
	f.Add("@types/node@^20")
	f.Add("-x")
	f.Fuzz(func(t *testing.T, spec string) {
		for _, language := range []string{"python", "node"} {
			if Check(language, []string{spec}) != nil {
				continue
			}
			name := specName(language, spec)
			slashes := 0
			if strings.HasPrefix(name, "@") {
				slashes = 1
			}
			if name == "" || !strings.HasPrefix(spec, name) || strings.HasPrefix(spec, "-") || strings.ContainsAny(spec, ":\\\x00\n\r;&$`'\"(){}") ||
				strings.Count(spec, "/") != slashes || strings.HasPrefix(spec, ".") {
				t.Errorf("%s: %q passes", language, spec)
			}
		}
	})
}

func TestDirName(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"default", "Team", "team", "TEAM", "..", ".", "...", "a.b", ".a", "a_b", "+41", "con"} {
		dir, err := dirName(name)
		if name == "+41" {
			if err == nil {
				t.Errorf("%q: no error", name)
			}
			continue
		}
		if err != nil || strings.HasPrefix(dir, ".") || strings.ToLower(dir) != dir || seen[dir] != "" {
			t.Errorf("%q: got %q %v; %q has it", name, dir, err, seen[dir])
		}
		seen[dir] = name
	}
}

// TestSaved: a layer is read as it was written, and its hash tells layers apart.
func TestSaved(t *testing.T) {
	l := layer{dir: t.TempDir(), Packages: []Package{{Name: "a", Version: "1", Hash: "sha256:x", Requested: true}}, Files: map[string]file{
		"a/b.py": {Size: 5, Exec: true, Hash: strings.Repeat("a", 64)}, "with space\n<é\"": {Hash: strings.Repeat("b", 64)}}}
	if err := errors.Join(os.MkdirAll(l.content(), 0o700), l.save()); err != nil {
		t.Fatal(err)
	}
	got, err := load(l.dir)
	if hash := l.hash(); err != nil || !reflect.DeepEqual(got, l) || got.hash() != hash {
		t.Errorf("got %+v %v, want %+v", got, err, l)
	}
	seen := map[string]bool{l.hash(): true}
	for _, f := range []file{{6, true, strings.Repeat("a", 64)}, {5, false, strings.Repeat("a", 64)}, {5, true, strings.Repeat("c", 64)}} {
		if l.Files["a/b.py"] = f; seen[l.hash()] {
			t.Errorf("%+v makes no difference", f)
		}
		seen[l.hash()] = true
	}
	for _, text := range []string{"", "[]", `{"Files":{"a":{"Size":"x"}}}`} {
		if err := os.WriteFile(filepath.Join(l.dir, "layer.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := load(l.dir); err == nil {
			t.Errorf("%q: no error, but %+v", text, got)
		}
	}
}

func TestOutput(t *testing.T) {
	var lines []string
	o := &output{screen: &screen{show: func(l string) { lines = append(lines, l) }, redact: func(l string) string { return l }}}
	for _, part := range []string{"a\nb", "c\r\n", "\xff", "\nlast"} {
		o.Write([]byte(part))
	}
	if got := o.String(); got != "a\nbc\n\uFFFD\nlast\n" || len(lines) != 4 {
		t.Errorf("got %q, %q", got, lines)
	}
	o.Write([]byte(strings.Repeat("x", 60<<20)))
	o.Write([]byte("\nthe error\n"))
	if got := o.String(); len(got) > maxOutput+100 || !strings.HasPrefix(got, "a\n") || !strings.HasSuffix(got, "\nthe error\n") ||
		!strings.Contains(got, "bytes are omitted") {
		t.Errorf("%d bytes, %q ... %q", len(got), got[:40], got[len(got)-40:])
	}
}
