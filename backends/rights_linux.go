package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// CheckRights refuses a writable mount that contains a file with privileges of its own (set-user-ID, set-group-ID,
// file capabilities) that programs could write to: they have the rights of the host's user uid there, -1 for one
// that owns no file. The kernel removes these privileges from a file that write(2) changes, but not from one that
// is changed through a mapping. Only root's mounts are checked, which takes 4 us per file: for another user,
// programs can change only that user's files.
//
// Known gap: a program that can move such a file out of the way of the search, which ran before the program began,
// could write to it itself.
func CheckRights(ctx context.Context, m Mount, uid int) error {
	if !m.Write || m.Host == "" || os.Geteuid() != 0 {
		return nil
	}
	refused := func(at int, name, path string) error {
		var stat unix.Stat_t
		if unix.Fstatat(at, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil || !hasRights(&stat, path, uid) {
			return nil
		}
		return Refuse(fmt.Sprintf("mount: %q contains %s, which has set-ID bits or capabilities, and would be writable", m.Host, path),
			"mount it read-only, or remove them: ",
			remedy.Command.With("chmod u-s,g-s "+path), ", ", remedy.Command.With("setcap -r "+path))
	}
	closed := map[string]bool{} // hidden from programs
	for _, sub := range Submounts(m.Host) {
		closed[sub.Path] = sub.Closed
	}
	search := []string{m.Host}
	for len(search) > 0 {
		dir := search[len(search)-1]
		search = search[:len(search)-1]
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("search for set-ID files and capabilities in %s: %w", m.Host, err)
		}
		if closed[dir] {
			continue
		}
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		switch {
		case errors.Is(err, unix.ENOTDIR): // the mount is a file
			err = refused(unix.AT_FDCWD, dir, dir)
		case err == nil:
			search, err = checkEntries(f, search, refused)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // programs can't reach it either
			return err
		}
	}
	return nil
}

// checkEntries checks the files of a directory, which it closes, and adds its subdirectories to search.
func checkEntries(dir *os.File, search []string, check func(at int, name, path string) error) ([]string, error) {
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			path := dir.Name() + "/" + e.Name()
			if e.IsDir() {
				search = append(search, path)
			} else if e.Type().IsRegular() {
				if err := check(int(dir.Fd()), e.Name(), path); err != nil {
					return search, err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return search, nil
		} else if err != nil {
			return search, err
		}
	}
}

// hasRights reports whether a file has privileges of its own, and is writable for a user.
func hasRights(stat *unix.Stat_t, path string, uid int) bool {
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG, int(stat.Uid) != uid && stat.Mode&0o022 == 0: // no access control list extends this
		return false
	case stat.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		return true
	}
	n, err := unix.Lgetxattr(path, "security.capability", nil)
	return err == nil && n > 0
}
