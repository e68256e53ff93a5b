package changes

import (
	"time"

	"golang.org/x/sys/unix"
)

// Began waits until the clock by which the kernel stamps files is past the time before, which is a tick of 10 ms at
// most, and returns what it shows: what the host changed before that time has an earlier stamp, and what it changes
// after the return has none that is earlier. A file system of the network may have another clock.
func Began(before time.Time) time.Time {
	for {
		var now unix.Timespec
		if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
			return before
		}
		if began := time.Unix(now.Unix()); began.After(before) {
			return began
		}
		time.Sleep(time.Millisecond)
	}
}
