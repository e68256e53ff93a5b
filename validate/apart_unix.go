//go:build unix

package validate

import "syscall"

// limitApart makes the kernel end this process should it go on for too long. Memory is RLIMIT_AS
// and not DATA because darwin has only that; Go maps far less than it reserves only with PROT_NONE.
func limitApart() {
	seconds := uint64(apartTime.Seconds()) * 2
	syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds})
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: apartMemory, Max: apartMemory})
}
