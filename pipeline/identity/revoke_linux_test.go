package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestRevokeOnAFullDisk: tokens are revoked one after the other where nothing can be written, for this and for other
// processes, and stay so.
func TestRevokeOnAFullDisk(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		hosttest.SkipMissing(t, "tmpfs", err.Error())
	}
	defer syscall.Unmount(dir, 0)
	s, other := quick(dir), quick(dir)
	tokens := map[string]string{}
	for i := range 4 {
		name := fmt.Sprint("t", i)
		token, _, err := s.Create(t.Context(), Token{Name: name, Kind: Agent, Namespaces: Only("a")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		tokens[name] = token
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	fill.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, _, err := s.Create(t.Context(), Token{Name: "more", Kind: Agent, Namespaces: Only("a")}, nil); err == nil {
		t.Skip("this file system has room where it says that it has none")
	}
	check := func(when string) {
		t.Helper()
		for name, token := range tokens {
			want := name == "t3"
			for _, store := range []*Tokens{other, quick(dir)} {
				if _, err := store.Verify(t.Context(), token); (err == nil) != want {
					t.Errorf("%s, %s: %v", when, name, err)
				}
			}
		}
	}
	missing := errors.New("the log is full, too")
	for _, name := range []string{"t0", "t1", "t2"} {
		gone, err := s.Revoke(t.Context(), name, func(Token) error { return missing })
		if err != missing || gone.Name != name {
			t.Errorf("%s: %v, %v", name, gone, err)
		}
		if _, err := other.Verify(t.Context(), tokens[name]); err == nil {
			t.Errorf("%s holds", name)
		}
	}
	check("on a full disk")
	if _, err := s.Revoke(t.Context(), "t0", nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("again: %v", err)
	}
	if err := os.Remove(fill.Name()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Create(t.Context(), Token{Name: "t0", Kind: Agent, Namespaces: Only("a")}, nil); err != nil {
		t.Errorf("the name is not free again: %v", err)
	}
	check("with space again")
	if list, err := s.List(); err != nil || len(list) != 2 {
		t.Errorf("got %v, %v", list, err)
	}
}
