package podman

import (
	"encoding/binary"
	"fmt"
	"io"
)

// frames takes standard output and standard error apart, which come over one connection: each piece has
// the number of its stream, three zeros, and its length (big endian) before it.
type frames struct {
	from   io.Reader
	stderr io.Writer
	left   uint32 // of a piece of standard output
}

// Read returns standard output. What is met of standard error goes to stderr, whose errors lose no more than that.
func (f *frames) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for f.left == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if uint64(len(p)) > uint64(f.left) {
		p = p[:f.left]
	}
	n, err := f.from.Read(p)
	f.left -= uint32(n)
	if err == io.EOF && f.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (f *frames) next() error {
	var head [8]byte
	if _, err := io.ReadFull(f.from, head[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(head[4:])
	switch head[0] {
	case 1:
		f.left = length
		return nil
	case 2, 3: // 3: what the service itself says
		_, err := io.CopyN(lossy{f.stderr}, f.from, int64(length))
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return fmt.Errorf("read from a container: a piece of stream %d", head[0])
}

// lossy is a writer that never fails.
type lossy struct{ w io.Writer }

func (l lossy) Write(p []byte) (int, error) {
	l.w.Write(p)
	return len(p), nil
}
