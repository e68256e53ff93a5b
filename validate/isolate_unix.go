//go:build linux || darwin

package validate

import "syscall"

// limitParser limits this process's time and memory. Memory is RLIMIT_DATA, which counts writable memory and not Go's
// reserved addresses.
func limitParser() {
	seconds := uint64(isolatedTimeout.Seconds()) * 2
	for what, limit := range map[int]uint64{
		syscall.RLIMIT_CPU: seconds, syscall.RLIMIT_CORE: 0, syscall.RLIMIT_DATA: isolatedMemory,
	} {
		syscall.Setrlimit(what, &syscall.Rlimit{Cur: limit, Max: limit})
	}
}
