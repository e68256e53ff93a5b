package backends

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Cores returns the number of processors that a program sees for a limit in cores, on a machine that has there.
func Cores(limit float64, there int) int {
	return max(1, min(there, int(math.Ceil(limit-0.001))))
}

// MemInfo returns the text of a sandbox's /proc/meminfo, by proc_meminfo(5): its RAM limit and its usage, in bytes.
// Texts for the same limit have the same length, so that one can overwrite another while programs read.
func MemInfo(ram, used int64) string {
	used = min(max(0, used), ram)
	var b strings.Builder
	for _, l := range []struct {
		name  string
		bytes int64
	}{
		{"MemTotal", ram}, {"MemFree", ram - used}, {"MemAvailable", ram - used}, {"Buffers", 0}, {"Cached", 0}, {"SwapCached", 0},
		{"Active", used}, {"Inactive", 0}, {"SwapTotal", 0}, {"SwapFree", 0}, {"AnonPages", used}, {"Mapped", 0}, {"Shmem", 0},
		{"KReclaimable", 0}, {"Slab", 0}, {"SReclaimable", 0}, {"SUnreclaim", 0}, {"CommitLimit", ram}, {"Committed_AS", used},
	} {
		number := strconv.FormatInt(l.bytes>>10, 10)
		b.WriteString(l.name + ":" + strings.Repeat(" ", max(1, 27-len(l.name)-len(number))) + number + " kB\n")
	}
	return b.String()
}

// ProcStat returns the text of a sandbox's /proc/stat, by proc_stat(5): its processors, with the time since its
// start and their busy time. From the host's text it takes the machine's boot time. Texts for the same number of
// processors have the same length.
func ProcStat(host string, processors int, busy, ago time.Duration) string {
	const ticks = 10 * time.Millisecond // USER_HZ
	var b strings.Builder
	line := func(name string, busy, ago time.Duration) {
		fmt.Fprintf(&b, "%s %12d 0 0 %12d 0 0 0 0 0 0\n", name, busy/ticks, max(0, ago-busy)/ticks)
	}
	all := time.Duration(processors)
	line("cpu ", busy, all*ago)
	for i := range processors {
		line("cpu"+strconv.Itoa(i), busy/all, ago)
	}
	b.WriteString("intr 0\nctxt 0\n")
	for l := range strings.Lines(host) {
		if strings.HasPrefix(l, "btime ") {
			b.WriteString(l)
		}
	}
	b.WriteString("processes 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n")
	return b.String()
}

// CPUInfo returns the first processors of the host's /proc/cpuinfo; "" if the text has an unknown format, as on
// some machines.
func CPUInfo(host string, processors int) string {
	blocks := strings.SplitAfterN(host, "\n\n", processors+1)
	if len(blocks) <= processors { // each block ends with an empty line
		return ""
	}
	var b strings.Builder
	for _, block := range blocks[:processors] {
		if !strings.HasPrefix(block, "processor") {
			return ""
		}
		for l := range strings.Lines(block) {
			name, _, _ := strings.Cut(l, ":")
			switch strings.TrimSpace(name) {
			case "siblings", "cpu cores":
				l = name + ": " + strconv.Itoa(processors) + "\n"
			}
			b.WriteString(l)
		}
	}
	return b.String()
}

// RuntimeVariables returns the variables that set limits for runtimes which would not detect them, or only in some
// versions: each runtime reads its own at its start, silently. A JVM has none of that kind, and with NODE_OPTIONS
// Node discards its compiled code.
func RuntimeVariables(l Limits, there int) []string {
	share := func(eighths int64) int64 { return l.RAM / 8 * eighths }
	processors := strconv.Itoa(Cores(l.CPU, there))
	return strings.Fields("GOMAXPROCS=" + processors + " DOTNET_PROCESSOR_COUNT=" + processors +
		" GOMEMLIMIT=" + strconv.FormatInt(share(7), 10) + // a soft limit: the collector works harder
		" DOTNET_GCHeapHardLimit=0x" + strconv.FormatInt(share(6), 16) + // .NET's default share of a container's limit
		" R_MAX_VSIZE=" + strconv.FormatInt(share(7), 10)) // an error instead of a kill
}
