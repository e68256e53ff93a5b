package changes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestMerge(t *testing.T) {
	tests := []struct{ name, base, ours, theirs, want string }{
		{"apart", "1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", "one\n2\n3\n4\nfive\n"},
		{"the same", "1\n2\n3\n", "1\ntwo\n3\n", "1\ntwo\n3\n", "1\ntwo\n3\n"},
		{"the same and more", "1\n2\n3\n4\n5\n", "1\ntwo\n3\n4\n5\n", "1\ntwo\n3\n4\nfive\n", "1\ntwo\n3\n4\nfive\n"},
		{"conflict", "1\n2\n3\n", "1\ntwo\n3\n", "1\nzwei\n3\n", ""},
		{"beside", "1\n2\n3\n", "one\n2\n3\n", "1\ntwo\n3\n", ""},
		{"inserted at one place", "1\n2\n", "1\na\n2\n", "1\nb\n2\n", ""},
		{"removed and changed", "1\n2\n3\n", "1\n3\n", "1\nzwei\n3\n", ""},
		{"removed both", "1\n2\n3\n4\n5\n", "2\n3\n4\n5\n", "1\n2\n3\n4\n", "2\n3\n4\n"},
		{"no newline", "1\n2\n3", "one\n2\n3", "1\n2\n3\n", "one\n2\n3\n"},
		{"empty base", "", "a\n", "b\n", ""},
		{"ours unchanged", "1\n", "1\n", "2\n", "2\n"},
		{"binary", "\x00", "1", "2", ""},
	}
	for _, tt := range tests {
		got, ok := merge([]byte(tt.base), []byte(tt.ours), []byte(tt.theirs))
		if ok != (tt.want != "") || string(got) != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, ok, tt.want)
		}
	}
}

// texts makes three texts of a few different lines.
func texts(b []byte) (all [3][]byte) {
	for i, c := range b {
		line := []byte{'a' + c%7, '\n'}
		if c&0x80 != 0 && i > len(b)-3 {
			line = line[:1]
		}
		for j := range all {
			if c>>(3+j)&1 == 0 {
				all[j] = append(all[j], line...)
			}
		}
	}
	return all
}

// The edits change one text into the other, and a merge with an unchanged text returns the other text.
func FuzzMerge(f *testing.F) {
	f.Add([]byte("some bytes of which lines are made"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		all := texts(b)
		base, ours, theirs := all[0], all[1], all[2]
		if got, ok := merge(base, base, theirs); !ok || !bytes.Equal(got, theirs) {
			t.Errorf("merge(%q, base, %q): %q, %v", base, theirs, got, ok)
		}
		if got, ok := merge(base, ours, base); !ok || !bytes.Equal(got, ours) {
			t.Errorf("merge(%q, %q, base): %q, %v", base, ours, got, ok)
		}
		if got, ok := merge(base, ours, ours); !ok || !bytes.Equal(got, ours) {
			t.Errorf("merge(%q, %q twice): %q, %v", base, ours, got, ok)
		}
		x, okX := merge(base, ours, theirs)
		y, okY := merge(base, theirs, ours)
		if okX != okY || !bytes.Equal(x, y) {
			t.Errorf("merge(%q, %q, %q): %q, and the other way %q", base, ours, theirs, x, y)
		}
	})
}

// git merges the same texts to the same result.
func TestMergeAsGit(t *testing.T) {
	git := hosttest.Program(t, "git")
	dir, merged := t.TempDir(), 0
	for i := range hosttest.Rounds(100, 2000) {
		base := bytes.Repeat([]byte("x"), 0)
		for n := range 30 {
			base = append(base, "line "+string(rune('A'+n))+"\n"...)
		}
		change := func(seed int) []byte {
			lines := splitLines(base)
			out := [][]byte{}
			for n, l := range lines {
				switch {
				case (n*7+seed)%19 == 0:
					out = append(out, []byte("changed "+string(rune('a'+seed%26))+"\n"))
				case (n*5+seed)%23 == 0:
				case (n*3+seed)%29 == 0:
					out = append(out, l, []byte("new\n"))
				default:
					out = append(out, l)
				}
			}
			return bytes.Join(out, nil)
		}
		ours, theirs := change(i), change(i*i+3)
		got, ok := merge(base, ours, theirs)
		if !ok {
			continue
		}
		merged++
		for name, text := range map[string][]byte{"ours": ours, "base": base, "theirs": theirs} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), git, "merge-file", "-p", "ours", "base", "theirs")
		cmd.Dir = dir
		want, err := cmd.Output()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("round %d: got %q, want %q, %v", i, got, want, err)
		}
	}
	if t.Logf("%d merged", merged); merged < 5 {
		t.Error("too few were merged")
	}
}
