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

// ProposeCopy fills the workspace with a copy of a directory of the host, and has Changes list all of it, and what is
// missing. The error is [snapshot.ErrFull] if there is no room.
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

// Unpack fills the workspace with an archive of [snapshot.Source.Pack]. Changes then lists all paths; the host
// knows which ones are missing.
func (f *Files) Unpack(r io.Reader) error {
	c := &copier{to: f.root}
	f.proposed = &proposed{}
	err := snapshot.Unpack(r, c.add)
	if err == nil {
		err = c.finish()
	}
	return full(err)
}

// full returns err, or that there is no room.
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
	owner syscall.Stat_t   // whose files the sandbox's user gets
	dirs  []snapshot.Entry // whose modes and times come last
}

// add copies one entry. The kernel shares blocks of the host's file where its file system can.
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

// failed makes an error of the workspace differ from one of the host's directory, of which what can't be read is left
// out.
func (c *copier) failed(err error) error {
	if err == nil || errors.Is(err, unix.ENOSPC) {
		return err
	}
	return fmt.Errorf("%v", err)
}

// finish gives the directories their modes and times, the deepest first.
func (c *copier) finish() error {
	for _, e := range slices.Backward(c.dirs) {
		if err := c.restore(e); err != nil {
			return err
		}
	}
	return nil
}

// restore gives a copy the owner, the mode and the time of the host's file. Rights of its own (set-user-ID) would be
// another user's.
func (c *copier) restore(e snapshot.Entry) error {
	mode := e.Info.Mode().Perm()
	if e.Info.IsDir() {
		mode |= e.Info.Mode() & (fs.ModeSetgid | fs.ModeSticky)
	}
	return errors.Join(c.chown(e), c.to.Chmod(e.Name, mode), c.to.Chtimes(e.Name, e.Info.ModTime(), e.Info.ModTime()))
}

// chown gives a copy to the sandbox's user, as a mount with a mapped owner does: files of others stay theirs.
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
