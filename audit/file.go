package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// openFile opens a regular file beside the log. It does not block on a FIFO that somebody may have put in its place.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|statefile.NoWait, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is no file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openHashed opens a regular file, and returns its SHA-256 in hex.
func openHashed(path string) (*os.File, string, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, "", err
	}
	return f, hex.EncodeToString(sum.Sum(nil)), nil
}
