package statefile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("one two three two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ old, fresh, want string }{
		{"two", "TWO", "one two three two"}, {"three", "four", "one two three two"}, {"none", "NONE", "one two three two"},
		{"three", "THREE", "one two THREE two"},
	} {
		err := Overwrite(path, []byte(tt.old), []byte(tt.fresh))
		got, _ := os.ReadFile(path)
		if string(got) != tt.want || (err == nil) != (tt.fresh == "THREE") {
			t.Errorf("%s: got %q, %v", tt.old, got, err)
		}
	}
}

// TestReplaceSpare: if a file can't be replaced, as on a full disk, the reserved space is used for it, once.
func TestReplaceSpare(t *testing.T) {
	dir := t.TempDir()
	if err := ReserveSpace(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "file")
	for i, want := range []bool{true, false} {
		data := bytes.Repeat([]byte{byte('a' + i)}, 100)
		err := ReplaceWithReserved(path, filepath.Join("none", "kind"), data) // a temporary file of this name can't be made
		got, _ := os.ReadFile(path)
		if (err == nil) != want || bytes.Equal(got, data) != want {
			t.Errorf("%d: got %q, %v", i, got, err)
		}
	}
	if err := ReplaceWithReserved(path, "test", []byte("x")); err != nil {
		t.Error(err)
	}
	wantFile(t, path, "x", 0o600)
}
