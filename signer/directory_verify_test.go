package signer

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kinds returns problems as "kind name".
func kinds(problems []Problem) []string {
	all := []string{}
	for _, p := range problems {
		text := p.Kind
		if p.Name != "" {
			text += " " + p.Name
		}
		all = append(all, text)
	}
	return all
}

func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyManifest(t *testing.T) {
	line := func(name string) string { return sum(name) + "  " + name + "\n" } // the content is the name
	for _, c := range []struct {
		name, list string
		dir        Directory
		want       []string
	}{
		{"good", line("a") + line("sub/b"), Directory{}, []string{}},
		{"binary, dots, line ends of Windows", sum("a") + " *./a\r\n" + strings.ToUpper(sum("sub/b")) + "  sub/./b\n", Directory{}, []string{}},
		{"no line end", line("a") + strings.TrimSpace(line("sub/b")), Directory{}, []string{}},
		{"missing", line("a") + line("sub/b") + line("c") + line("a/b") + line("none/x"), Directory{},
			[]string{"missing c", "missing a/b", "missing none/x"}},
		{"changed", sum("x") + "  a\n" + line("sub/b"), Directory{}, []string{"changed a"}},
		{"extra", line("a"), Directory{}, []string{"extra sub/b"}},
		{"extra, and nobody minds", line("a"), Directory{AllowExtra: true}, []string{}},
		{"extra, and known", line("a"), Directory{AllowedNames: []string{"sub/b"}}, []string{}},
		{"a directory", line("sub"), Directory{AllowExtra: true}, []string{"unreadable sub"}},
		{"out", line("../a") + line("/etc/passwd") + line("sub/../../b") + line(".") + line("a\x00"), Directory{AllowExtra: true},
			[]string{"path ../a", "path /etc/passwd", "path sub/../../b", "path .", "path a\x00"}},
		{"broken lines", "hello\n" + line("a") + "\n" + sum("a") + " a\n" + sum("a")[1:] + "g  a\n" + `\` + sum("a") + "  a\\x\n" + `\` +
			sum("a") + "  a\\\n" + sum("a") + "  \n",
			Directory{AllowExtra: true}, []string{"list", "list", "list", "list", "list", "list", "list"}},
		{"twice", line("a") + line("a") + sum("x") + "  ./a\n", Directory{AllowExtra: true}, []string{"list", "list"}},
		{"empty", "", Directory{AllowExtra: true}, []string{"list"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "a", "a")
			writeFile(t, dir, "sub/b", "sub/b")
			writeFile(t, dir, "SHA256SUMS", c.list)
			writeFile(t, dir, ReceiptName, "")
			c.dir.Path = dir
			_, problems, err := VerifyManifest(strings.NewReader(c.list), c.dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, kinds(problems)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, problems)
			}
		})
	}
	if _, _, err := VerifyManifest(strings.NewReader(line("a")), Directory{Path: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// TestVerifyWhatWasCollected: verification accepts Collect's output, also for the worst names.
func TestVerifyWhatWasCollected(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a file system that takes any name")
	}
	dir, key := t.TempDir(), fixedKey(t)
	var files []File
	for _, name := range hostile {
		files = append(files, file(name, "content of "+name))
	}
	m := collect(t, sourceOf(files...), Options{Dir: directoryAt(t, dir)})
	r := sampleReceipt()
	r.Artifacts = m.Artifacts
	e, err := r.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := saveReceipt(t, dir, e); err != nil {
		t.Fatal(err)
	}
	check := func() []Problem {
		t.Helper()
		sums, err := os.Open(filepath.Join(dir, sumsName))
		if err != nil {
			t.Fatal(err)
		}
		defer sums.Close()
		n, byList, err := VerifyManifest(sums, Directory{Path: dir})
		if err != nil || n != len(hostile) {
			t.Fatalf("%d files, %v", n, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, ReceiptName))
		if err != nil {
			t.Fatal(err)
		}
		proof, problems := VerifyReceipt(text, NewTrust(key.PublicKey))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		byReceipt, err := proof.VerifyDirectory(Directory{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(kinds(byList), kinds(byReceipt)); diff != "" {
			t.Errorf("the list and the receipt differ:\n%s", diff)
		}
		return byReceipt
	}
	if problems := check(); len(problems) > 0 {
		t.Errorf("got %v", problems)
	}
	for _, name := range hostile { // each by itself
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := kinds(check()); len(got) != 1 || !strings.HasPrefix(got[0], "changed ") {
			t.Errorf("%q: got %v", name, got)
		}
		if err := os.WriteFile(file, []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lied := strings.Repeat("0", 64) + "  planted\n"
	writeFile(t, dir, sumsName, lied)
	proof, _ := VerifyReceipt(envelope(t, r, key), NewTrust(key.PublicKey))
	if problems, err := proof.VerifyDirectory(Directory{Path: dir}); err != nil || len(problems) != 1 || problems[0].Kind != BadList {
		t.Errorf("a list that lies beside the receipt: %v, %v", problems, err)
	}
	var sums strings.Builder
	if err := m.WriteSums(&sums); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, sumsName, sums.String())
	writeFile(t, dir, "planted", "x")
	os.Remove(filepath.Join(dir, "~"))
	if got := kinds(check()); len(got) != 2 || got[0] != "missing ~" || got[1] != "extra planted" {
		t.Errorf("got %v", got)
	}
}

func TestManyExtraFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range maxExtra + 5 {
		writeFile(t, dir, sum(string(rune(i))), "")
	}
	_, problems, err := VerifyManifest(strings.NewReader(""), Directory{Path: dir})
	if err != nil || len(problems) != maxExtra+2 || !strings.Contains(problems[maxExtra+1].Why, "5 more") {
		t.Errorf("got %d problems, %v", len(problems), err)
	}
}

func TestParseHash(t *testing.T) {
	want := sum("x")
	for _, text := range []string{want, strings.ToUpper(want), "sha256:" + want, "SHA256:" + strings.ToUpper(want), " " + want + "\n"} {
		if got, err := ParseHash(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "sha256:", want[1:], want + "0", "g" + want[1:], "sha512:" + want, "sha256:sha256:" + want,
		want + " x"} {
		if got, err := ParseHash(text); err == nil {
			t.Errorf("%q is %q", text, got)
		}
	}
}

func TestWhat(t *testing.T) {
	key := fixedKey(t)
	p, problems := VerifyReceipt(envelope(t, sampleReceipt(), key), NewTrust(key.PublicKey))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	all, whole := p.ArtifactSums(t.TempDir())
	if !whole {
		t.Error("the receipt names all, and is not whole")
	}
	for content, want := range map[string]string{"a": "the artifact a.txt", "print(1)": "the code", "out": "its standard output",
		"": "its standard error", "7": "its value", "leak": "", "none": ""} {
		if got := p.PartWithHash(sum(content), all); got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
}

// TestMoreThanAReceiptNames: a receipt of more artifacts than it names covers all of them, by the list whose hash
// it contains.
func TestMoreThanAReceiptNames(t *testing.T) {
	key, dir := fixedKey(t), t.TempDir()
	r := sampleReceipt()
	r.Artifacts = nil
	for i := range maxNamed + 7 {
		a := Artifact{Name: fmt.Sprintf("f%04d", i), SHA256: sum(fmt.Sprint(i))}
		if i == 1 || i == maxNamed+1 || i == maxNamed+2 {
			a.Withheld = "a secret is in it"
		} else {
			writeFile(t, dir, a.Name, fmt.Sprint(i))
		}
		r.Artifacts = append(r.Artifacts, a)
	}
	var list strings.Builder
	if err := (Manifest{Artifacts: r.Artifacts}).WriteSums(&list); err != nil {
		t.Fatal(err)
	}
	p, problems := VerifyReceipt(envelope(t, r, key), NewTrust(key.PublicKey))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if len(p.Artifacts) != maxNamed-1 || p.ArtifactsUnlisted != 5 || len(p.ArtifactsWithheld) != 1 || p.WithheldUnlisted != 2 {
		t.Errorf("%d named and %d not, withheld %d and %d", len(p.Artifacts), p.ArtifactsUnlisted, len(p.ArtifactsWithheld), p.WithheldUnlisted)
	}
	unnamed := sum(fmt.Sprint(maxNamed + 4))
	for name, tt := range map[string]struct {
		list  string
		whole bool
		files int
		what  string
	}{
		"as it was signed": {list.String(), true, maxNamed + 4, "the artifact f1004"},
		"changed":          {list.String() + unnamed + "  planted\n", false, maxNamed - 1, ""},
		"not there":        {"", false, maxNamed - 1, ""},
	} {
		os.Remove(filepath.Join(dir, sumsName))
		if tt.list != "" {
			writeFile(t, dir, sumsName, tt.list)
		}
		all, whole := p.ArtifactSums(dir)
		if len(all) != tt.files || whole != tt.whole {
			t.Errorf("%s: %d files, whole %v", name, len(all), whole)
		}
		if got := p.PartWithHash(unnamed, all); got != tt.what {
			t.Errorf("%s: got %q, want %q", name, got, tt.what)
		}
		if problems, err := p.VerifyDirectory(Directory{Path: dir}); err != nil || (len(problems) == 0) != tt.whole {
			t.Errorf("%s: %d problems, %v", name, len(problems), err)
		}
	}
}

// FuzzParseSums: a parsed list has sha256sum's meaning: written again, it parses as the same list.
func FuzzParseSums(f *testing.F) {
	for _, name := range hostile {
		var b strings.Builder
		m := Manifest{Artifacts: []Artifact{{Name: name, SHA256: sum(name)}}}
		m.WriteSums(&b)
		f.Add(b.String())
	}
	f.Add(strings.ToUpper(sum("")) + " *x\r\n\n#\n\\" + sum("") + "  \\q\n")
	f.Fuzz(func(t *testing.T, text string) {
		sums, problems, err := ParseSums(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(sums)+len(problems) != max(1, strings.Count(text, "\n")+unterminatedLines(text)) {
			t.Errorf("%q: %d sums and %d problems", text, len(sums), len(problems))
		}
		var m Manifest
		for _, s := range sums {
			if !isHash(s.SHA256) || s.Name == "" {
				t.Fatalf("%q: got %+v", text, s)
			}
			m.Artifacts = append(m.Artifacts, Artifact{Name: s.Name, SHA256: s.SHA256})
		}
		if len(sums) == 0 {
			return
		}
		var b strings.Builder
		if err := m.WriteSums(&b); err != nil {
			t.Fatal(err)
		}
		again, problems, err := ParseSums(strings.NewReader(b.String()))
		for i := range sums {
			if sums[i].Name == "-" {
				sums[i].Name = "./-"
			}
		}
		if err != nil || len(problems) > 0 || !cmp.Equal(again, sums) {
			t.Fatalf("%q became %q: %v, %v", text, b.String(), problems, err)
		}
	})
}

// unterminatedLines returns 1 if the last line has no end.
func unterminatedLines(text string) int {
	if text == "" || strings.HasSuffix(text, "\n") {
		return 0
	}
	return 1
}
