package container

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osuser "os/user"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// identity is the user of programs, as numbered in the container.
type identity struct {
	uid, gid int
	keep     bool // Container.KeepID
}

func (i identity) String() string { return fmt.Sprintf("%d:%d", i.uid, i.gid) }

// onHost returns the user's ID on the host, -1 for one that owns no file.
func (i identity) onHost(info Info, us serverUser) int {
	switch {
	case i.keep:
		return us.uid
	case info.UserNS || info.Rootless:
		return -1
	}
	return i.uid
}

// User IDs on an engine without a user namespace: a range that no distribution and no container manager assigns
// (systemd's UIDS-GIDS document calls 0x70000000 to 0x7ffffffe unused).
const (
	firstUID = 0x70000000
	uids     = 0x0ffffffe
)

// serverUser is the user of this server, and the users that the system permits it to map.
type serverUser struct {
	uid, gid int
	mapped   int // users that our engine can map besides ourselves; 0 if unknown
}

func currentUser() serverUser {
	s := serverUser{uid: os.Geteuid(), gid: os.Getegid()}
	f, err := os.Open("/etc/subuid")
	if err != nil {
		return s
	}
	defer f.Close()
	name := ""
	if u, err := osuser.LookupId(strconv.Itoa(s.uid)); err == nil {
		name = u.Username
	}
	s.mapped = countSubordinate(f, name, strconv.Itoa(s.uid))
	return s
}

// countSubordinate counts the users that subuid(5) assigns to these names.
func countSubordinate(r io.Reader, names ...string) (n int) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		for _, name := range names {
			if len(fields) != 3 || name == "" || fields[0] != name {
				continue
			}
			if count, err := strconv.Atoi(fields[2]); err == nil && count > 0 {
				n += count
			}
		}
	}
	return n
}

// chooseUser selects the user of a container's programs: one that owns no file and, if there are enough, that no
// other container has, since the kernel's limits count by user. If host directories are mounted, it must be a user
// who may read or write there.
func chooseUser(engine string, info Info, us serverUser, binds []Bind) (identity, error) {
	if maxMapped(info, us) < 1 {
		return identity{}, backends.Refuse(engine+" maps only its own user into containers: /etc/subuid and /etc/subgid assign it no others",
			remedy.Command.With("sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER"),
			", then podman system migrate; or use the process backend")
	}
	switch {
	case len(binds) > 0 && info.Rootless && us.uid > 0 && engine == "podman":
		me, err := ownIdentity(us, binds)
		me.keep = true
		return me, err
	case len(binds) > 0 && !info.UserNS && us.uid > 0:
		return ownIdentity(us, binds)
	}
	anyone := unprivileged(info, us)
	owner, err := ownerOfAll(engine, info, binds)
	if err != nil || owner == nil {
		return anyone, err
	}
	return *owner, nil
}

// unprivileged returns a user that owns no file.
func unprivileged(info Info, us serverUser) identity {
	if !info.UserNS && !info.Rootless {
		n := firstUID + rand.IntN(uids)
		return identity{uid: n, gid: n}
	}
	// Images have users of their own with small numbers.
	last := maxMapped(info, us)
	first := min(10000, (last+1)/2)
	n := first + rand.IntN(last-first+1)
	return identity{uid: n, gid: n}
}

// maxMapped is the largest user ID in containers whose engine maps users.
func maxMapped(info Info, us serverUser) int {
	const usual = 1<<16 - 1
	switch {
	case info.Users > 0:
		return min(usual, info.Users-1)
	case info.Rootless && info.Local && us.mapped > 0:
		return min(usual, us.mapped)
	}
	return usual
}

// ownIdentity returns the server's own user, which must not be root: programs have the server's rights in mounted
// directories.
func ownIdentity(us serverUser, binds []Bind) (identity, error) {
	me := identity{uid: us.uid, gid: us.gid}
	for _, b := range binds {
		info, err := os.Stat(b.Host)
		if err != nil {
			return me, backends.RefuseMount(b.Host, "can't be shown: "+err.Error())
		}
		if uid, gid := ownerOf(info); b.Write && !mayWrite(info.Mode(), uid == us.uid, gid == us.gid) {
			return me, backends.Refuse(fmt.Sprintf("mount: %q can't be written by user %d", b.Host, us.uid),
				remedy.Command.With("chmod u+rwX "+b.Host))
		}
	}
	return me, nil
}

// ownerOfAll returns the user that may write to all writable binds; nil if every user may.
func ownerOfAll(engine string, info Info, binds []Bind) (*identity, error) {
	var owner *identity
	var whose string
	for _, b := range binds {
		if !b.Write {
			continue
		}
		file, err := os.Stat(b.Host)
		if err != nil {
			return nil, backends.RefuseMount(b.Host, "can't be shown: "+err.Error())
		}
		if mayWrite(file.Mode(), false, false) {
			continue
		}
		uid, gid := ownerOf(file)
		refuse := func(why string) error {
			otherwise := ", or chown it to another user, or use the process backend"
			if info.UserNS {
				otherwise = ", or use rootless Podman or the process backend"
			}
			return backends.Refuse(fmt.Sprintf("mount: %q can't be written by the unprivileged user of a container: %s", b.Host, why),
				remedy.Command.With("chmod -R o+rwX "+b.Host), otherwise)
		}
		switch {
		case info.UserNS || info.Rootless:
			return nil, refuse(engine + " maps users, and its owner is none of them")
		case uid == 0:
			return nil, refuse("it belongs to root")
		case !mayWrite(file.Mode(), true, false):
			return nil, refuse("not even its owner may write to it")
		case owner != nil && owner.uid != uid:
			return nil, refuse("it belongs to another user than " + whose)
		}
		owner, whose = &identity{uid: uid, gid: gid}, b.Host
	}
	return owner, nil
}

// mayWrite reports whether a mode permits a user to write: the file's owner, a member of its group, or another.
func mayWrite(mode os.FileMode, owner, group bool) bool {
	need := os.FileMode(0o2)
	if mode.IsDir() {
		need = 0o3
	}
	switch {
	case owner:
		need <<= 6
	case group:
		need <<= 3
	}
	return mode.Perm()&need == need
}
