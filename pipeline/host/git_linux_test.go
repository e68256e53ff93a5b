package host

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGitHostileFiles: who may write into a directory can put there what never ends.
func TestGitHostileFiles(t *testing.T) {
	fifo := func(name string) error { return unix.Mkfifo(name, 0o666) }
	endless := func(name string) error {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			return err
		}
		return os.Truncate(name, 1<<40)
	}
	for _, tt := range []struct {
		name, file string
		make       func(string) error
	}{
		{"a fifo for a repository", ".git", fifo}, {"a fifo for its settings", ".git/config", fifo}, {"a fifo for those of a worktree", ".git/config.worktree", fifo},
		{"a link without an end", ".git", endless}, {"settings without an end", ".git/config", endless},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, tt.file)), 0o755))
			must(t, tt.make(filepath.Join(dir, tt.file)))
			if gitDoubt(dir, nil) == "" { // and it is not waited for
				t.Error("it is no doubt")
			}
		})
	}
}
