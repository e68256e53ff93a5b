package process

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The host users of sandboxes that root starts come from a range that no distribution and no container manager gives out
// (systemd's UIDS-GIDS document calls 0x70000000 to 0x7ffffffe unused), a block of it for each server.
const (
	firstUID  = 0x70000000
	blockUIDs = 1 << 16
	uidBlocks = 0x0fffffff / blockUIDs
)

// uids lends each sandbox a host user that no other has: the kernel counts by user the pages of pipes, watches of epoll,
// descriptors in flight, keys, and more, and refuses all of that user when one has too many.
type uids struct {
	mu    sync.Mutex
	first int // of this server's block; 0 before it is needed
	next  int // within the block: a number comes again as late as possible
	taken map[int]bool
	mark  int // a socket, by whose name other servers know that the block is taken
}

// take lends a user, until giveBack is called with it.
func (u *uids) take() (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.first == 0 {
		u.open()
	}
	if len(u.taken) == blockUIDs {
		return 0, fmt.Errorf("all %d users for sandboxes are taken", blockUIDs)
	}
	for u.taken[u.first+u.next] {
		u.next = (u.next + 1) % blockUIDs
	}
	uid := u.first + u.next
	u.taken[uid] = true
	u.next = (u.next + 1) % blockUIDs
	return uid, nil
}

// giveBack takes a user back, of whom no process is left.
func (u *uids) giveBack(uid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.taken, uid)
}

// open picks a block that no other server of this network namespace has. Its mark, an abstract name of a Unix socket, is
// gone with the server, however that ends. Servers that can't see each other are kept apart by chance alone.
func (u *uids) open() {
	u.taken, u.next = map[int]bool{}, rand.IntN(blockUIDs)
	at := rand.IntN(uidBlocks)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		u.mark = fd
		for range uidBlocks {
			if unix.Bind(fd, &unix.SockaddrUnix{Name: uidMark(at)}) != unix.EADDRINUSE {
				break
			}
			at = (at + 1) % uidBlocks
		}
	}
	u.first = firstUID + at*blockUIDs
}

func uidMark(block int) string { return fmt.Sprintf("@sandboxmcp/uids/%d", block) }

// mapAll gives all of the block's users to the new user namespace of a process, under their own numbers. What that
// process forks can become any of them.
func (u *uids) mapAll(pid int) error {
	same := fmt.Appendf(nil, "%d %d %d", u.first, u.first, blockUIDs)
	for _, file := range []struct {
		name string
		text []byte
	}{{"setgroups", []byte("deny")}, {"uid_map", same}, {"gid_map", same}} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file.name), file.text, 0); err != nil {
			return fmt.Errorf("map users: %w", err)
		}
	}
	return nil
}

// close lets another server have the block.
func (u *uids) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.first != 0 && u.mark > 0 {
		unix.Close(u.mark)
		u.mark = 0
	}
}
