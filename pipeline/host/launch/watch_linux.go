package launch

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bound has this thread, and all that it starts, on as many CPUs as there may be.
func bound(b Bounds) error {
	if cores := int(math.Ceil(b.CPU)); cores > 0 && cores < runtime.NumCPU() {
		var own, some unix.CPUSet
		if err := unix.SchedGetaffinity(0, &own); err != nil {
			return os.NewSyscallError("sched_getaffinity", err)
		}
		for cpu := 0; some.Count() < cores && cpu < 1024; cpu++ {
			if own.IsSet(cpu) {
				some.Set(cpu)
			}
		}
		if err := unix.SchedSetaffinity(0, &some); err != nil {
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	return nil
}

// watch says which of the bounds all descendants together are past, once. Each look is followed by a rest of ten times
// as long, and 10 ms at least.
func watch(b Bounds, exceeded chan<- string) {
	for {
		began := time.Now()
		ram, threads := held(b.RAM)
		switch {
		case b.RAM > 0 && ram > b.RAM:
			exceeded <- "ram"
			return
		case b.Processes > 0 && threads > b.Processes:
			exceeded <- "processes"
			return
		}
		time.Sleep(max(10*time.Millisecond, 10*time.Since(began)))
	}
}

// held adds up what descendants hold: bytes of memory that is no file's, and threads. The cheap sum counts shared pages
// more than once; only when that is past the limit is the exact one taken.
func held(limit int64) (ram int64, threads int) {
	pids := descendants()
	for _, pid := range pids {
		status := fields(pid, "status")
		ram += status["RssAnon"] + status["RssShmem"] + status["VmPTE"]
		threads += int(status["Threads"])
	}
	if ram <= limit {
		return ram, threads
	}
	ram = 0
	for _, pid := range pids {
		rollup := fields(pid, "smaps_rollup")
		ram += rollup["Pss_Anon"] + rollup["Pss_Shmem"] + fields(pid, "status")["VmPTE"]
	}
	return ram, threads
}

// fields are the numbers of a file of a process: bytes where it says kB.
func fields(pid int, name string) map[string]int64 {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name) // it may have ended meanwhile
	all := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		key, text, _ := strings.Cut(line, ":")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		n, _ := strconv.ParseInt(words[0], 10, 64)
		if len(words) > 1 && words[1] == "kB" {
			n <<= 10
		}
		all[key] = n
	}
	return all
}
