package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// maxNames bounds the names of one directory, which are sorted in memory.
const maxNames = 200_000

// List returns the entries of a directory, sorted, and with deep those of its subdirectories, at most limit entries.
// more reports that there are others. It follows no links, and skips the content of directories that are hidden from
// agents.
func (a Access) List(ctx context.Context, name string, deep bool, limit int) (all []Entry, more bool, err error) {
	name, err = Clean(name)
	if err != nil {
		return nil, false, err
	}
	d, err := a.openParent(name, false)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	l := lister{Access: a, deep: deep, limit: limit}
	err = l.directory(ctx, d, d.rel, "")
	if errors.Is(err, errEnough) {
		return l.all, true, nil
	}
	return l.all, l.more, err
}

var errEnough = errors.New("the limit of entries is reached")

type lister struct {
	Access
	deep  bool
	limit int
	all   []Entry
	more  bool
}

// directory lists the directory rel under the name to.
func (l *lister) directory(ctx context.Context, d *rootedPath, rel, to string) error {
	here := &rootedPath{d.spot, d.dir, rel}
	here.asked, here.real = path.Join(d.asked, to), path.Join(d.base, rel)
	f, _, err := l.inspect(here, unix.S_IFDIR, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("list %q: %w", here.asked, err)
	}
	l.more = l.more || len(names) == maxNames
	slices.Sort(names)
	for _, name := range names {
		if err := l.entry(ctx, d, f, name, path.Join(rel, name), path.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) entry(ctx context.Context, d *rootedPath, dir *os.File, name, rel, to string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // removed meanwhile
	}
	if len(l.all) == l.limit {
		return errEnough
	}
	e := Entry{Path: to, Kind: "other", Size: st.Size}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind = "file"
	case unix.S_IFLNK:
		e.Kind = "link"
	case unix.S_IFDIR:
		e.Kind, e.Size = "directory", 0
	}
	l.all = append(l.all, e)
	if e.Kind != "directory" || !l.deep {
		return nil
	}
	if err := l.directory(ctx, d, rel, to); errors.Is(err, errEnough) || ctx.Err() != nil {
		return err
	}
	return nil // list the name of an unreadable directory, but not its content
}
