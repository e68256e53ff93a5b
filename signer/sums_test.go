package signer

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// hostile has file names that are valid on Linux.
var hostile = []string{
	"new\nline", "back\\slash", `back\nslash`, "carriage\rreturn", "ends in CR\r", "crlf\r\n", "\n", "\\", "\r",
	"-", "--help", "-c", "sub/-", " leading", "trailing ", "  ", "*star", "#comment", "tab\t", "\x01\x1b[31mred\x7f",
	"not utf-8 \xff\xfe", "\xff", "\u202egnp.exe", "日本語", "SHA256 (a) = b", "~", "a=b", "...", "..a", "c:d", `"quoted"`,
	sum("x") + "  x", "sub/SHA256SUMS", ".sandboxmcp-x", strings.Repeat("n", 255), strings.Repeat("d/", 100) + "deep\n",
}

func TestSumsAreReadBySha256sum(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs GNU sha256sum")
	}
	tool := hosttest.Program(t, "sha256sum")
	dir := t.TempDir()
	var files []File
	for _, name := range hostile {
		files = append(files, file(name, "content of "+name))
	}
	m := collect(t, sourceOf(files...), Options{Dir: directoryAt(t, dir)})
	for _, a := range m.Artifacts {
		if a.Withheld != "" {
			t.Errorf("%q is withheld: %s", a.Name, a.Withheld)
		}
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}

	check := exec.Command(tool, "--check", "--strict", "SHA256SUMS")
	check.Dir = dir
	out, err := check.CombinedOutput()
	if err != nil {
		t.Errorf("sha256sum --check: %v\n%s", err, out)
	}
	if got := strings.Count(string(out), ": OK\n"); got != len(hostile) {
		t.Errorf("sha256sum found %d files, want %d\n%s", got, len(hostile), out)
	}

	args := []string{"--"}
	for _, a := range m.Artifacts {
		name := a.Name
		if name == "-" {
			name = "./-"
		}
		args = append(args, name)
	}
	write := exec.Command(tool, args...)
	write.Dir = dir
	want, err := write.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sums, want) {
		t.Errorf("got\n%q\nwant what sha256sum writes\n%q", sums, want)
	}

	if err := os.WriteFile(filepath.Join(dir, hostile[0]), []byte("tampered"), 0o600); err != nil {
		t.Fatal(err)
	}
	check = exec.Command(tool, "--check", "--strict", "SHA256SUMS")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err == nil {
		t.Errorf("sha256sum accepts a changed file\n%s", out)
	}
}

// No name makes a second line, or a line for another file.
func FuzzWriteSums(f *testing.F) {
	for _, name := range hostile {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if nameProblem(name) != "" {
			return
		}
		var b strings.Builder
		m := Manifest{Artifacts: []Artifact{{Name: name, SHA256: sum("")}, {Name: "w", Withheld: "why"}}}
		if err := m.WriteSums(&b); err != nil {
			t.Fatal(err)
		}
		line, ok := strings.CutSuffix(b.String(), "\n")
		if !ok || strings.ContainsAny(line, "\n\r") {
			t.Fatalf("got %q, want one line", b.String())
		}
		line, escaped := strings.CutPrefix(line, `\`)
		got, ok := strings.CutPrefix(line, sum("")+"  ")
		if escaped {
			got = strings.NewReplacer(`\\`, "\\", `\n`, "\n", `\r`, "\r").Replace(got)
		}
		if !ok || got != name && (got != "./-" || name != "-") {
			t.Fatalf("got %q for %q", got, name)
		}
	})
}

// FuzzMIME: mimetype parses programs' files, and no file may crash the server.
func FuzzMIME(f *testing.F) {
	for _, s := range []string{"", "PK\x03\x04", "{\"a\":1}", "a,b\n1,2\n", "<svg>", "%PDF-", "\x7fELF", "\xd0\xcf\x11\xe0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		m := collect(t, sourceOf(file("a", content)), Options{})
		if m.Artifacts[0].MIME == "" || m.Artifacts[0].SHA256 != sum(content) {
			t.Errorf("got %+v", m)
		}
	})
}
