package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// openHashed opens a regular file, and returns its SHA-256 in hex.
func openHashed(path string) (*os.File, string, error) {
	f, err := statefile.Open(path)
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
