package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// target is a file to write, by its name in an open directory.
type target struct {
	*rootedPath
	parent *os.File
	base   string
	old    *os.File // O_PATH; nil if there is none
	st     unix.Stat_t
}

func (t *target) Close() {
	t.rootedPath.Close()
	t.parent.Close() // nil is valid for both
	t.old.Close()
}

// Write writes a file in an existing directory, in one of the modes. A new file gets the permissions of the process's
// umask. A replaced file keeps its permissions, except set-user-id and the like, its owner and extended attributes as
// far as possible; Notes has the rest.
func (a Access) Write(ctx context.Context, name string, content []byte, mode string) (Written, error) {
	if int64(len(content)) > a.MaxBytes {
		return Written{}, a.tooLarge(name, int64(len(content)))
	}
	t, err := a.target(name)
	if err != nil {
		return Written{}, err
	}
	defer t.Close()
	w := Written{Had: t.old != nil, Size: int64(len(content))}
	if w.Had && mode == Create {
		return w, fmt.Errorf("write %q: %w", t.asked, fs.ErrExist)
	}
	if w.Had {
		if w.Before, w.Large, err = a.before(ctx, t); err != nil {
			return w, err
		}
	}
	if ctx.Err() != nil {
		return w, context.Cause(ctx)
	}
	switch {
	case mode == Append && w.Had:
		w.Size, err = a.appendTo(t, content)
	default:
		w.Notes, err = t.replace(a, content, mode == Overwrite)
	}
	if err != nil {
		return w, fmt.Errorf("write %q: %w", t.asked, explained(err))
	}
	return w, nil
}

// explained extends the kernel's error about a full disk.
func explained(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("the disk is full, and the old content is unchanged: %w", err)
	}
	return err
}

// target opens the directory of a file for writing, and inspects the existing file.
func (a Access) target(name string) (*target, error) {
	name, err := file(name)
	if err != nil {
		return nil, err
	}
	d, err := a.openParent(name, true)
	if err != nil {
		return nil, err
	}
	t := &target{rootedPath: d, base: path.Base(d.rel)}
	if err := a.aim(t); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (a Access) aim(t *target) (err error) {
	if t.rel == "." {
		return deny(t.asked, "is a directory, and not a regular file")
	}
	if isTemp(t.base) {
		return deny(t.asked, "has a name that sandboxmcp gives to files which it is writing")
	}
	if t.parent, _, err = a.inspect(&rootedPath{t.spot, t.dir, path.Dir(t.rel)}, unix.S_IFDIR, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return err
	}
	if err := t.bare(); err != nil {
		return err
	}
	if t.old, t.st, err = a.inspect(t.rootedPath, unix.S_IFREG, unix.O_PATH); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// bare refuses to write into a directory that git takes for a repository, whatever its name: its config names
// commands.
func (t *target) bare() error {
	for _, name := range []string{"objects", "refs"} {
		var st unix.Stat_t
		if unix.Fstatat(int(t.parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
	}
	return deny(t.asked, "lies in a git repository itself, whose files are not written by agents, since git runs what they say")
}

// before reads the content of a file.
func (a Access) before(ctx context.Context, t *target) (b []byte, large bool, err error) {
	b, err = a.all(ctx, t.asked, t.old, t.st.Size)
	if errors.Is(err, fs.ErrPermission) || errors.As(err, new(*Denial)) { // it may still be writable
		return nil, true, nil
	}
	return b, false, err
}

// appendTo appends to a file in one piece, after reserving the space.
func (a Access) appendTo(t *target, content []byte) (int64, error) {
	if t.st.Nlink > 1 {
		return 0, deny(t.asked, "has other names, under which it would change, too: overwrite it instead")
	}
	f, err := os.OpenFile(self(t.old), os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || len(content) == 0 {
		return t.st.Size, err
	}
	size := info.Size()
	if size+int64(len(content)) > a.MaxBytes {
		return 0, a.tooLarge(t.asked, size+int64(len(content)))
	}
	const keepSize = unix.FALLOC_FL_KEEP_SIZE
	if err := unix.Fallocate(int(f.Fd()), keepSize, size, int64(len(content))); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return 0, err
	}
	n, err := f.Write(content)
	if err != nil && n > 0 { // keep later writes of others
		if info, statErr := f.Stat(); statErr == nil && info.Size() == size+int64(n) {
			_ = f.Truncate(size)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return size + int64(n), err
}
