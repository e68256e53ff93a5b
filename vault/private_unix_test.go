//go:build unix

package vault

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestKeyThatOthersMayRead(t *testing.T) {
	s := sealKeys(t, "KEY")
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o644, 0o660, 0o666, 0o777} {
		if err := os.Chmod(s.keyFilePath(), mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Get(t.Context(), "default", "KEY")
		added := s.Add(t.Context(), Entry{Namespace: "default", Key: "NEXT"}, []byte("value"), false)
		for _, err := range []error{err, added} {
			if err == nil || !strings.Contains(err.Error(), "chmod 600") {
				t.Errorf("%v: %v", mode, err)
			}
		}
	}
	for _, mode := range []os.FileMode{0o400, 0o600} {
		if err := os.Chmod(s.keyFilePath(), mode); err != nil {
			t.Fatal(err)
		}
		wantValue(t, s, "KEY")
	}
}

// TestKeyThatIsNoFile: a FIFO, a directory or a link in place of the key is an error, without waiting.
func TestKeyThatIsNoFile(t *testing.T) {
	s := sealKeys(t, "KEY")
	elsewhere := filepath.Join(t.TempDir(), "key")
	if err := os.Rename(s.keyFilePath(), elsewhere); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		make func() error
		want string
	}{
		"fifo":      {func() error { return syscall.Mkfifo(s.keyFilePath(), 0o600) }, "is not a file"},
		"directory": {func() error { return os.Mkdir(s.keyFilePath(), 0o700) }, "is not a file"},
		"link":      {func() error { return os.Symlink(elsewhere, s.keyFilePath()) }, "is a link"},
	} {
		os.Remove(s.keyFilePath())
		if err := tt.make(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get(t.Context(), "default", "KEY"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeyOfAnotherUser: that user knows the contents of a key file that belongs to another user.
func TestKeyOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	s := sealKeys(t, "KEY")
	if err := os.Chown(s.keyFilePath(), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(t.Context(), Entry{Namespace: "default", Key: "NEXT"}, []byte("value"), false); err == nil ||
		!strings.Contains(err.Error(), "another user's") {
		t.Errorf("got %v", err)
	}
}
