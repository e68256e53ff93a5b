package podman

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// isLocal reports whether a service runs on this very kernel and sees our files. A virtual machine differs in its
// kernel, name, memory or uptime; a service that shares the kernel but not the files has another name or another
// storage directory. An engine in doubt is not local: then no host path is mounted.
func (h hostInfo) isLocal() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil || unix.ByteSliceToString(u.Release[:]) != h.Host.Kernel ||
		unix.ByteSliceToString(u.Nodename[:]) != h.Host.Hostname {
		return false
	}
	if total, ok := memory(); !ok || total != h.Host.MemTotal {
		return false
	}
	theirs, err := parseUptime(h.Host.Uptime)
	if err != nil {
		return false
	}
	if ours, ok := uptime(); !ok || !sameUptime(ours, theirs) {
		return false
	}
	_, err = os.Lstat(h.Store.GraphRoot)
	return err == nil || os.IsPermission(err)
}

// parseUptime reads the uptime of podman info: "9h 51m 33.00s (Approximately 0.38 days)".
func parseUptime(s string) (time.Duration, error) {
	s, _, _ = strings.Cut(s, "(")
	return time.ParseDuration(strings.ReplaceAll(s, " ", ""))
}

// sameUptime reports whether two uptimes are of one machine; theirs was read before ours. Podman rounds hours and
// minutes independently: its 1h 59m 40s is "2h 60m 40.00s".
func sameUptime(ours, theirs time.Duration) bool {
	return slices.ContainsFunc([]time.Duration{0, time.Minute, time.Hour, time.Hour + time.Minute}, func(up time.Duration) bool {
		between := ours - (theirs - up)
		return between > -2*time.Second && between < 10*time.Second
	})
}

func uptime() (time.Duration, bool) {
	data, _ := os.ReadFile("/proc/uptime")
	first, _, _ := strings.Cut(string(data), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second)), err == nil
}

// memory returns the machine's memory in bytes.
func memory() (int64, bool) {
	data, _ := os.ReadFile("/proc/meminfo")
	_, after, found := strings.Cut(string(data), "MemTotal:")
	fields := strings.Fields(after)
	if !found || len(fields) == 0 {
		return 0, false
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err == nil
}
