package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the user and system time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// dropProgram removes the program's code and constants, 37 MB of which a server normally uses a few, from this
// process's memory. They stay in the page cache, from where a page fault brings them back.
func dropProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, m := range unmodifiedMappings(bufio.NewScanner(f), exe) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.begin, m.end-m.begin, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ begin, end uintptr }

// unmodifiedMappings returns the read-only and unmodified mappings of a file in an smaps of proc(5). Constants that a linker
// relocated are modified: dropping them would lose the addresses.
func unmodifiedMappings(smaps *bufio.Scanner, file string) (all []mapping) {
	var m mapping
	mine := false
	for smaps.Scan() {
		line := smaps.Text()
		key, value, _ := strings.Cut(line, ":")
		switch {
		case strings.Contains(key, "-"):
			var flags string
			_, err := fmt.Sscanf(line, "%x-%x %4s", &m.begin, &m.end, &flags)
			mine = err == nil && strings.HasSuffix(line, " "+file) && strings.HasPrefix(flags, "r-")
		case key == "Anonymous":
			mine = mine && strings.TrimSpace(value) == "0 kB"
		case key == "Swap" && mine && strings.TrimSpace(value) == "0 kB":
			all = append(all, m)
		}
	}
	return all
}
