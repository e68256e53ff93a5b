package changes

import (
	"time"

	"golang.org/x/sys/unix"
)

// Began waits until the kernel's clock for file times is past the time before, which takes one tick of at most 10 ms,
// and returns that clock's time. A file that the host changed earlier than before has a stamp earlier than the result;
// a file that the host changes after the return has no such stamp. A network file system may use another clock.
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
