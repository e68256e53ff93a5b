package signer

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A secret at the end of a file must not have been in the directory while the file was read.
func TestSecretNeverReachesTheDirectory(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	content := strings.Repeat("x", 3<<20) + secret + strings.Repeat("y", 1<<20)
	watched := reading("leak", int64(len(content)), func() io.Reader {
		r := strings.NewReader(content)
		return readerFunc(func(p []byte) (int, error) {
			if got := tree(t, dir); len(got) != 0 {
				t.Fatalf("in the directory before the verdict: %d files", len(got))
			}
			if runtime.GOOS != "windows" && len(tree(t, temp)) != 0 {
				t.Fatal("a file in the temporary directory has a name, and would stay after a kill")
			}
			return r.Read(p)
		})
	})
	for name, o := range map[string]Options{
		"found":       {ContainsSecret: containsSecret},
		"found early": {ContainsSecret: func(io.Reader) (bool, error) { return true, nil }},
		"failed":      {ContainsSecret: func(io.Reader) (bool, error) { return false, errors.New("boom " + secret) }, Redact: redact},
	} {
		t.Run(name, func(t *testing.T) {
			o.Dir = directoryAt(t, dir)
			m := collect(t, sourceOf(watched), o)
			if len(m.Artifacts) != 1 || m.Artifacts[0].Withheld == "" || m.Artifacts[0].SHA256 != sum(content) {
				t.Errorf("got %+v, want it withheld and hashed whole", m)
			}
			if strings.Contains(fmt.Sprint(m), secret) {
				t.Errorf("the manifest tells the secret: %+v", m)
			}
			wantTree(t, dir, map[string]string{})
			wantTree(t, temp, map[string]string{})
		})
	}
}

// A search that stops early without a find still has its file saved whole.
func TestSearchThatReadsNothing(t *testing.T) {
	dir := t.TempDir()
	content := strings.Repeat("x", 2<<20)
	m := collect(t, sourceOf(file("a", content)), Options{Dir: directoryAt(t, dir), ContainsSecret: func(io.Reader) (bool, error) {
		return false, nil
	}})
	if tree(t, dir)["a"] != content || m.Artifacts[0].SHA256 != sum(content) {
		t.Error("the file is not whole")
	}
}

func TestSecretInName(t *testing.T) {
	dir := t.TempDir()
	src := sourceOf(file("b-"+secret, "1"), file("b-"+secret+"/x", "2"), file("a", "3"))
	m := collect(t, src, Options{Dir: directoryAt(t, dir), Redact: redact})
	var names []string
	for _, a := range m.Artifacts {
		names = append(names, a.Name+": "+a.Withheld)
	}
	want := []string{
		"a: ",
		"b-***REDACTED***: a secret is in its name",
		"b-***REDACTED***/x: a secret is in its name",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantTree(t, dir, map[string]string{"a": "3", "SHA256SUMS": sum("3") + "  a\n"})
}
