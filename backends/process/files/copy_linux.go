package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/snapshot"
)

// ProposeCopy fills the workspace with a copy of a directory of the host. Changes then lists all paths of the
// workspace, and the copied paths that are missing. The error is [snapshot.ErrFull] if there is no room.
func (f *Files) ProposeCopy(ctx context.Context, from snapshot.Source) error {
	top, err := from.Dir.Stat(".")
	if err != nil {
		return err
	}
	c := &copier{to: f.root, uid: f.uid, owner: *top.Sys().(*syscall.Stat_t), dirs: []snapshot.Entry{{Name: ".", Info: top}}}
	f.proposed = &proposed{hidden: from.Hidden}
	if f.proposed.copied, err = from.Read(ctx, c.add); err == nil {
		err = c.finish()
	}
	return full(err)
}

// Unpack fills the workspace with an archive of [snapshot.Source.Pack]. Changes then lists all paths; the host knows
// which ones are missing.
func (f *Files) Unpack(r io.Reader) error {
	c := &copier{to: f.root}
	f.proposed = &proposed{}
	err := snapshot.Unpack(r, c.add)
	if err == nil {
		err = c.finish()
	}
	return full(err)
}

// full returns [snapshot.ErrFull] if err means that there is no room, otherwise err.
func full(err error) error {
	if errors.Is(err, unix.ENOSPC) {
		return snapshot.ErrFull
	}
	return err
}

// copier writes the entries of a directory of the host to a workspace.
type copier struct {
	to    *os.Root
	uid   int              // of the sandbox, if root starts it
	owner syscall.Stat_t   // the copies of this owner's files belong to uid
	dirs  []snapshot.Entry // their modes and times are set last
}

// add copies one entry. The copy shares blocks with the host's file if the file system supports that.
func (c *copier) add(e snapshot.Entry) error {
	switch {
	case e.Info.IsDir():
		c.dirs = append(c.dirs, e)
		return c.failed(c.to.Mkdir(e.Name, 0o700))
	case e.Open == nil:
		return c.failed(errors.Join(c.to.Symlink(e.Target, e.Name), c.chown(e)))
	}
	from, err := e.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := c.to.OpenFile(e.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return c.failed(err)
	}
	defer to.Close()
	if _, err := io.CopyN(to, from, e.Info.Size()); err != nil && err != io.EOF {
		return c.failed(err)
	}
	return c.failed(c.restore(e))
}

// failed hides the kind of an error of the workspace: an error of the host's directory of the same kind means an
// unreadable entry, which is left out.
func (c *copier) failed(err error) error {
	if err == nil || errors.Is(err, unix.ENOSPC) {
		return err
	}
	return fmt.Errorf("%v", err)
}

// finish sets the modes and times of the directories, the deepest first.
func (c *copier) finish() error {
	for _, e := range slices.Backward(c.dirs) {
		if err := c.restore(e); err != nil {
			return err
		}
	}
	return nil
}

// restore gives a copy the owner, the mode and the time of the host's file, without a set-user-ID bit, which would
// grant the rights of another user.
func (c *copier) restore(e snapshot.Entry) error {
	mode := e.Info.Mode().Perm()
	if e.Info.IsDir() {
		mode |= e.Info.Mode() & (fs.ModeSetgid | fs.ModeSticky)
	}
	return errors.Join(c.chown(e), c.to.Chmod(e.Name, mode), c.to.Chtimes(e.Name, e.Info.ModTime(), e.Info.ModTime()))
}

// chown gives a copy to the sandbox's user, as a mount with a mapped owner does. Copies of other users' files belong to
// those users.
func (c *copier) chown(e snapshot.Entry) error {
	if c.uid == 0 {
		return nil
	}
	st := e.Info.Sys().(*syscall.Stat_t)
	uid, gid := int(st.Uid), int(st.Gid)
	if st.Uid == c.owner.Uid {
		uid = c.uid
	}
	if st.Gid == c.owner.Gid {
		gid = c.uid
	}
	return c.to.Lchown(e.Name, uid, gid)
}
