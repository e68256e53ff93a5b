package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/trap"
)

// Temporary files have this name, and a lock that ends with the writing process.
const (
	tempPrefix = ".sandboxmcp-"
	tempSuffix = ".tmp"
)

func isTemp(name string) bool {
	word := trap.Fold(name)
	return strings.HasPrefix(word, tempPrefix) && strings.HasSuffix(word, tempSuffix)
}

// replace writes content to a temporary file in the same directory, and then renames it. Readers see either the old
// or the new file, even if we are killed or the disk is full.
func (t *target) replace(a Access, content []byte, over bool) (notes []string, err error) {
	t.tidy(a)
	f, name, err := t.temp()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(int(t.parent.Fd()), name, 0)
		}
	}()
	if _, err := f.Write(content); err != nil {
		return nil, err
	}
	if t.old != nil {
		if notes, err = t.inherit(f); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	if err := t.rename(name, over); err != nil {
		return nil, err
	}
	return notes, t.parent.Sync()
}

// temp creates the locked temporary file.
func (t *target) temp() (*os.File, string, error) {
	// minus the umask
	how := unix.OpenHow{Flags: unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC, Mode: 0o666, Resolve: beneath}
	if t.old != nil {
		how.Mode = 0o600
	}
	for range 100 {
		name := tempPrefix + rand.Text() + tempSuffix
		fd, err := openHow(int(t.parent.Fd()), name, how)
		if err != nil {
			return nil, "", err
		}
		f := os.NewFile(uintptr(fd), t.asked)
		// A concurrent cleanup may have locked and removed it first. Without locks, there is no cleanup.
		lockErr := statefile.TryLock(f, false)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && (lockErr == nil && st.Nlink > 0 || lockErr != nil &&
			!errors.Is(lockErr, statefile.ErrLocked)) {
			return f, name, nil
		}
		f.Close()
	}
	return nil, "", errors.New("its temporary file was removed repeatedly: is the directory being cleaned up?")
}

// rename renames the temporary file. Without over, it does not replace a file that was created meanwhile.
func (t *target) rename(name string, over bool) error {
	dir := int(t.parent.Fd())
	if over {
		return unix.Renameat(dir, name, dir, t.base)
	}
	err := unix.Renameat2(dir, name, dir, t.base, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not supported by the file system
		if err = unix.Linkat(dir, name, dir, t.base, 0); err == nil {
			return unix.Unlinkat(dir, name, 0)
		}
	}
	return err
}

// inherit copies the mode, owner and attributes of the old file to the new one.
func (t *target) inherit(f *os.File) (notes []string, err error) {
	fd, mode := int(f.Fd()), t.st.Mode&0o777
	if dropped := t.st.Mode & 0o7000; dropped != 0 {
		notes = append(notes, fmt.Sprintf("it lost the mode bits %#o (such as set-user-id)", dropped))
	}
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return nil, err
	}
	if now.Gid != t.st.Gid && unix.Fchown(fd, -1, int(t.st.Gid)) != nil {
		mode &^= 0o070
		notes = append(notes, fmt.Sprintf("its group changed to %d from %d, without permissions", now.Gid, t.st.Gid))
	}
	if now.Uid != t.st.Uid && unix.Fchown(fd, int(t.st.Uid), -1) != nil {
		notes = append(notes, fmt.Sprintf("its owner changed to %d from %d", now.Uid, t.st.Uid))
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return nil, err
	}
	return append(notes, t.attributes(fd)...), nil
}

// attributes copies extended attributes, including access control lists. It skips capabilities, which were for the
// old content, and the system's labels, which the kernel sets.
func (t *target) attributes(fd int) (notes []string) {
	buf := make([]byte, 64<<10)
	n, err := unix.Listxattr(self(t.old), buf)
	if err != nil {
		return nil
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if name == "" || slices.Contains([]string{"security.selinux", "security.ima", "security.evm", "security.apparmor"}, name) {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Getxattr(self(t.old), name, value)
		if err == nil && name != "security.capability" {
			err = unix.Fsetxattr(fd, name, value[:n], 0)
		}
		if err != nil || name == "security.capability" {
			notes = append(notes, fmt.Sprintf("it lost the attribute %s", name))
		}
	}
	return notes
}

// tidy removes temporary files of killed writers: their locks are gone.
func (t *target) tidy(a Access) {
	f, err := os.Open(self(t.parent))
	if err != nil {
		return
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(1000)
		for _, name := range names {
			if isTemp(name) {
				t.removeStale(a, name)
			}
		}
		if err != nil {
			return
		}
	}
}

func (t *target) removeStale(a Access, name string) {
	found, _, err := a.inspect(&rootedPath{t.spot, t.dir, path.Join(path.Dir(t.rel), name)}, unix.S_IFREG, unix.O_PATH)
	if err != nil {
		return
	}
	defer found.Close()
	f, err := os.OpenFile(self(found), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if statefile.TryLock(f, false) == nil {
		_ = unix.Unlinkat(int(t.parent.Fd()), name, 0)
	}
}
