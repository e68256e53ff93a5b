package files

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// open opens a file for reading, and returns how large it is. It never waits.
func (a Access) open(name string) (*os.File, int64, error) {
	name, err := file(name)
	if err != nil {
		return nil, 0, err
	}
	d, err := a.enter(name, false)
	if err != nil {
		return nil, 0, err
	}
	defer d.Close()
	return a.openFile(d, d.rel)
}

// openFile opens what was judged, and nothing that has taken its place.
func (a Access) openFile(d *rootedPath, rel string) (*os.File, int64, error) {
	found, err := d.open(rel, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, 0, err
	}
	defer found.Close()
	if isLink(found) {
		return nil, 0, d.linked(rel)
	}
	st, err := a.judge(d, found, unix.S_IFREG)
	if err != nil {
		return nil, 0, err
	}
	fd, err := unix.Open(self(found), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("open %q: %w", d.asked, err)
	}
	return os.NewFile(uintptr(fd), d.asked), st.Size, nil
}

func isLink(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// Read returns a whole file.
func (a Access) Read(ctx context.Context, name string) ([]byte, error) {
	f, size, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > a.MaxBytes {
		return nil, a.tooLarge(name, size)
	}
	return a.all(ctx, f)
}

// all reads a file that may grow meanwhile.
func (a Access) all(ctx context.Context, f *os.File) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(contextReader{ctx, f}, a.MaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %q: %w", f.Name(), err)
	case int64(len(b)) > a.MaxBytes:
		return nil, a.tooLarge(f.Name(), int64(len(b)))
	}
	return b, nil
}

func (a Access) tooLarge(name string, size int64) error {
	return deny(name, "has %d bytes or more, and the operator lets %d be read or written (host.max_file_mb)", size, a.MaxBytes)
}

// contextReader reads until its context ends.
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
