package process

import (
	"os"
	"testing"
)

// TestWatches has a program take as many instances of inotify as it gets, of which the kernel gives a user 128 in all.
func TestWatches(t *testing.T) {
	if _, err := os.Stat("/proc/sys/user/max_inotify_instances"); err != nil {
		t.Skip("this kernel does not count them by user namespace")
	}
	s := fromTemplate(t, newBackend(t, Config{Ahead: 1}))
	if got := say(t, s, "python3 -c 'import ctypes; c = ctypes.CDLL(None); print(sum(c.inotify_init1(0) >= 0 for _ in range(200)))'"); got != "16\n" {
		t.Errorf("one program has %s", got)
	}
}
