//go:build linux || darwin

package validate

import "syscall"

// limitParser makes the kernel end this process if it runs for too long or grows too large. Memory is RLIMIT_DATA, which
// counts writable memory and not the addresses that Go reserves.
func limitParser() {
	seconds := uint64(isolatedTimeout.Seconds()) * 2
	for what, limit := range map[int]uint64{
		syscall.RLIMIT_CPU: seconds, syscall.RLIMIT_CORE: 0, syscall.RLIMIT_DATA: isolatedMemory,
	} {
		syscall.Setrlimit(what, &syscall.Rlimit{Cur: limit, Max: limit})
	}
}
