package diff

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	got := Unified("a/a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b/a", "1\n2\n3\n4\nfive\n6\n7\n8\n9\nten")
	want := "--- a/a\n+++ b/a\n@@ -2,8 +2,9 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n+ten\n\\ No newline at end of file\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Unified("a", "x\n", "b", "x\n"); got != "" {
		t.Errorf("nothing changed, but %q", got)
	}
}

// FuzzDiff makes the second text from the first with patch(1).
func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd\n")
	f.Add("", "x\n")
	f.Add("x", "")
	f.Add("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", "b\nc\nd\ne\nf\ng\nh\ni\nj\nk")
	patch, err := exec.LookPath("patch")
	if err != nil {
		f.Skip("no patch")
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		diff := Unified("a/f", before, "b/f", after)
		// for patch, these mean that there is no file
		if diff == "" || strings.ContainsAny(before+after, "\x00\r") || before == "" || after == "" {
			return
		}
		name := t.TempDir() + "/f"
		if err := os.WriteFile(name, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(patch, "--quiet", "--force", "--fuzz=0", name)
		cmd.Stdin = strings.NewReader(diff)
		out, err := cmd.CombinedOutput()
		if got, _ := os.ReadFile(name); err != nil || string(got) != after {
			t.Errorf("%q to %q: %v %s\n%s", before, after, err, out, diff)
		}
	})
}
