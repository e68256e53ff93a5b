package changes

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// "git apply" of the exported patch has the same result as Apply, except for states that git does not track, and "git
// apply -R" reverses it.
func TestExport(t *testing.T) {
	git := hosttest.Program(t, "git")
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	cases := append(applied[:len(applied):len(applied)], applied[0])
	cases[len(cases)-1].name = "content"
	cases[len(cases)-1].before = map[string]string{"bin": string(noise), "gone": "\x00\x01", "crlf": "1\r\n2\r\n", "no newline": "1\n2",
		"x": "-> bin", "sp ace/a b": "1\n"}
	cases[len(cases)-1].after = map[string]string{"bin": string(noise[:500]) + "x", "gone": "!", "new": string(noise[5:5000]), "empty": "",
		"crlf": "1\r\nzwei\r\n", "no newline": "1\n2\n3",
		"x": "+x now a file\n", "dashes": "-- a\n++ b\n", "sp ace/a b": "1\n2\n", "one": "\x00"}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			p := newProject(t, tt.before).afterwards(tt.after)
			set := p.propose()
			var patch bytes.Buffer
			if err := p.store.Export(&patch, set, nil); err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(filepath.Dir(p.host), "copy")
			if out, err := exec.CommandContext(t.Context(), "cp", "-a", p.host, copied).CombinedOutput(); err != nil {
				t.Log(string(out))
				t.Fatal(err)
			}
			old := gitTree(t, copied)
			apply := func(flags ...string) {
				cmd := exec.CommandContext(t.Context(), git, append([]string{"apply"}, flags...)...)
				cmd.Dir, cmd.Stdin = copied, bytes.NewReader(patch.Bytes())
				cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(copied), "GIT_CONFIG_GLOBAL=/dev/null")
				if out, err := cmd.CombinedOutput(); err != nil && patch.Len() > 0 {
					t.Fatalf("git apply: %v\n%s\n%s", err, out, patch.String())
				}
			}
			apply()
			p.apply(ApplyOptions{})
			if got, want := gitTree(t, copied), gitTree(t, p.host); got != want {
				t.Errorf("got %s, want %s, of\n%s", got, want, patch.String())
			}
			apply("-R")
			if got := gitTree(t, copied); got != old {
				t.Errorf("back: got %s, want %s", got, old)
			}
		})
	}
}

// gitTree lists a tree as git tracks it: without times and empty directories.
func gitTree(t *testing.T, dir string) string {
	var lines []string
	all := strings.Split(untimed(treeOf(t, dir)), "\n")
	for _, line := range all {
		if !strings.Contains(line, `" d`) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func TestDiff(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1\n2\n", "b": "\x00", "r": "same text\n"}).edit(map[string]string{"a": "1\nzwei\n",
		"b": "\x01\x00", "r": "!", "s": "+x same text\n", "n\n": "new"})
	set := p.propose()
	for _, tt := range []struct {
		paths []string
		want  string
	}{
		{[]string{"a"}, "diff --git a/a b/a\nindex 1191247b6d9a206f6ba3d8ac79e26d041dd86941..ca2bd3e91eec8bb23afe051abf3d6137f4ba99b0 " +
			"100644\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+zwei\n"},
		{[]string{"b"}, "Binary files a/b and b/b differ\n"},
		{[]string{"r", "s"}, "diff --git a/r b/s\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from r\nrename to s\n"},
		{[]string{"s"}, "diff --git a/s b/s\nnew file mode 100755\n"},
		{[]string{"n\n"}, `diff --git "a/n\n" "b/n\n"` + "\nnew file mode 100644\n"},
		{nil, `\ No newline at end of file`},
	} {
		var got bytes.Buffer
		if err := p.store.Diff(&got, set, tt.paths); err != nil || !strings.Contains(got.String(), tt.want) {
			t.Errorf("%q: got %s (%v), want %s", tt.paths, got.String(), err, tt.want)
		}
	}
}
