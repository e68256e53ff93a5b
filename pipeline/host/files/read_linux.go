package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Read returns a whole file. It never blocks on one.
func (a Access) Read(ctx context.Context, name string) ([]byte, error) {
	name, err := file(name)
	if err != nil {
		return nil, err
	}
	d, err := a.openParent(name, false)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	found, st, err := a.inspect(d, unix.S_IFREG, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return a.all(ctx, name, found, st.Size)
}

// all reads the inspected file, and nothing that has replaced it. The file may grow meanwhile.
func (a Access) all(ctx context.Context, name string, found *os.File, size int64) ([]byte, error) {
	if size > a.MaxBytes {
		return nil, a.tooLarge(name, size)
	}
	f, err := os.OpenFile(self(found), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, errors.Unwrap(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(contextReader{ctx, f}, a.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	if int64(len(b)) > a.MaxBytes {
		return nil, a.tooLarge(name, int64(len(b)))
	}
	return b, nil
}

func (a Access) tooLarge(name string, size int64) error {
	return deny(name, "has %d bytes or more, and at most %d are read or written at once", size, a.MaxBytes)
}

// contextReader is a reader that fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (p contextReader) Read(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	return p.r.Read(b)
}
