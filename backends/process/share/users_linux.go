package share

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The host users of sandboxes that root starts come from a range that no distribution and no container manager
// assigns (systemd's UIDS-GIDS document calls 0x70000000 to 0x7ffffffe unused), one block per server.
const (
	firstUID  = 0x70000000
	blockUIDs = 1 << 16
	uidBlocks = 0x0fffffff / blockUIDs
)

// Users assigns each sandbox a host user of its own: the kernel counts pipe pages, epoll watches, descriptors in
// flight, keys and more by user, and denies further ones to all of that user's processes.
type Users struct {
	mu    sync.Mutex
	first int // of this server's block; 0 before first use
	next  int // within the block: an ID is reused as late as possible
	used  map[int]bool
	mark  int // a socket whose name reserves the block among servers
}

// Assign assigns a user until Return.
func (u *Users) Assign() (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.first == 0 {
		u.open()
	}
	if len(u.used) == blockUIDs {
		return 0, fmt.Errorf("all %d users for sandboxes are taken", blockUIDs)
	}
	for u.used[u.first+u.next] {
		u.next = (u.next + 1) % blockUIDs
	}
	uid := u.first + u.next
	u.used[uid] = true
	u.next = (u.next + 1) % blockUIDs
	return uid, nil
}

// Return releases a user that has no processes.
func (u *Users) Return(uid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.used, uid)
}

// open picks a block that no other server of this network namespace has. Its mark, an abstract name of a Unix
// socket, disappears with the server, however that ends. Servers in different network namespaces are separated only
// by the random choice.
func (u *Users) open() {
	u.used, u.next = map[int]bool{}, rand.IntN(blockUIDs)
	at := rand.IntN(uidBlocks)
	if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		u.mark = fd
		for range uidBlocks {
			if unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@sandboxmcp/uids/%d", at)}) != unix.EADDRINUSE {
				break
			}
			at = (at + 1) % uidBlocks
		}
	}
	u.first = firstUID + at*blockUIDs
}

// MapAll maps all of the block's users, with unchanged IDs, into the new user namespace of a process, whose
// children can become any of them.
func (u *Users) MapAll(pid int) error {
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

// Close releases the block.
func (u *Users) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.first != 0 && u.mark > 0 {
		unix.Close(u.mark)
		u.mark = 0
	}
}
