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

// bound restricts this thread and its children to the allowed number of CPUs.
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

// watch reports the first bound that all descendants together exceed. Each sample is followed by a pause of ten times
// its duration, at least 10 ms.
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

// held adds up the memory of descendants that is not backed by files, in bytes, and their threads. The cheap sum
// counts shared pages several times; the exact one is computed only if that exceeds the limit.
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

// fields returns the numbers of a file of a process: in bytes if they have the unit kB.
func fields(pid int, name string) map[string]int64 {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name) // the process may have ended
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
