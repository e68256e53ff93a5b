package witness

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// file keeps a checkpoint at its path.
type file string

func (f file) read(context.Context) ([]byte, error) { return audit.ReadCheckpoint(string(f)) }

// write replaces the file whole: where the disk is full, the old one stays.
func (f file) write(_ context.Context, note, _ []byte, _ int64) error {
	temp := filepath.Join(filepath.Dir(string(f)), ".new-checkpoint-"+rand.Text())
	defer os.Remove(temp)
	w, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = w.Write(note)
	if err := errors.Join(err, w.Sync(), w.Close()); err != nil {
		return err
	}
	return os.Rename(temp, string(f))
}
