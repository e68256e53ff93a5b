package vault

import "golang.org/x/sys/unix"

// mapLocked returns fresh memory, or nil if there is none. It is locked if RLIMIT_MEMLOCK leaves room.
func mapLocked(size int) []byte {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil
	}
	_ = unix.Madvise(memory, unix.MADV_DONTDUMP)
	_ = unix.Mlock(memory)
	return memory
}

func unmap(memory []byte) { _ = unix.Munmap(memory) } // also unlocks it

// disableCoreDumps keeps this process and its children from writing core dumps, which would contain the copies of
// values outside of these pages. An operator can raise the limit again, up to the hard one.
//
// PR_SET_DUMPABLE would be stronger, but it gives our files in /proc to root, and then an ordinary user can't write
// uid_map of the user namespaces that sandboxes need.
func disableCoreDumps() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &limit) == nil && limit.Cur > 0 {
		limit.Cur = 0
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &limit)
	}
}
