package signer

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// spoolMemory is the number of bytes of a file kept in memory; most artifacts are smaller.
const spoolMemory = 1 << 20

// spool buffers a file until the search for secrets has ended: the first bytes in memory, the rest in a temporary file
// without a name, which disappears with a killed process.
type spool struct {
	start    bytes.Buffer
	overflow *os.File
	err      error // of the first failed Write
}

func (s *spool) Write(p []byte) (n int, err error) {
	if s.overflow == nil && s.start.Len()+len(p) <= spoolMemory {
		return s.start.Write(p)
	}
	if s.overflow == nil {
		s.overflow, err = os.CreateTemp("", "sandboxmcp-")
		if err == nil {
			_ = os.Remove(s.overflow.Name()) // fails on Windows; reset removes it there
		}
	}
	if err == nil {
		n, err = s.overflow.Write(p)
	}
	if err != nil {
		s.err = fmt.Errorf("hold it in %s: %w", os.TempDir(), WithoutPaths(err))
	}
	return n, s.err
}

// reader returns a reader of all written bytes, which is valid until the next reset.
func (s *spool) reader() (io.Reader, error) {
	if s.overflow == nil {
		return bytes.NewReader(s.start.Bytes()), nil
	}
	if _, err := s.overflow.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.MultiReader(bytes.NewReader(s.start.Bytes()), s.overflow), nil
}

func (s *spool) reset() {
	s.start.Reset()
	s.err = nil
	if s.overflow != nil {
		s.overflow.Close()
		_ = os.Remove(s.overflow.Name())
		s.overflow = nil
	}
}
