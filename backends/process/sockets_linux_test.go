package process

import (
	"os"
	"testing"
)

// TestTooManySockets checks tooMany with kernel counters of hosts with much and with little memory.
func TestTooManySockets(t *testing.T) {
	const large, small = 300_000, 20_000 // TCP's pressure threshold in pages: about 24 GB and 1.7 GB of RAM
	for _, c := range []struct {
		name     string
		sockstat string
		pressure int
		want     bool
	}{
		{"few", "sockets: used 40\nTCP: inuse 8 orphan 0 tw 0 alloc 9 mem 12\nUDP: inuse 0 mem 0\n", large, false},
		{"many", "sockets: used 4000\nTCP: inuse 3999 orphan 0 tw 0 alloc 9 mem 12\n", large, false},
		{"too many", "sockets: used 4097\nTCP: inuse 8 orphan 0 tw 0 alloc 9 mem 12\n", large, true},
		{"many, and the pool is filling", "sockets: used 600\nTCP: inuse 99 orphan 0 tw 0 alloc 900 mem 150001\n", large, true},
		{"few, and the pool is filling", "sockets: used 500\nTCP: inuse 99 orphan 0 tw 0 alloc 900 mem 150001\n", large, false},
		{"a small host", "sockets: used 100\nTCP: inuse 99 orphan 0 tw 0 alloc 900 mem 9000\n", small, false},
		{"a small host's pool is filling", "sockets: used 40\nTCP: inuse 9 orphan 0 tw 0 alloc 900 mem 10001\n", small, true},
		{"the least, there", "sockets: used 16\nTCP: inuse 9 orphan 0 tw 0 alloc 900 mem 10001\n", small, false},
		{"nothing is known of the pool", "sockets: used 900\nTCP: inuse 9 orphan 0 tw 0 alloc 900 mem 10001\n", 0, false},
		{"nothing is known", "", large, false},
	} {
		if got := parseSockets([]byte(c.sockstat)).tooMany(c.pressure, true); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
	for used, want := range map[string]bool{"1024": false, "1025": true, "4000\nTCP: inuse 2976": false, "4000\nTCP: inuse 2975": true} {
		if got := parseSockets([]byte("sockets: used "+used+"\n")).tooMany(large, false); got != want {
			t.Errorf("%s, and no cgroup counts what they hold: got %v", used, got)
		}
	}
}

// TestWatches has a program create as many inotify instances as it gets; the kernel gives a user 128 in all.
func TestWatches(t *testing.T) {
	if _, err := os.Stat("/proc/sys/user/max_inotify_instances"); err != nil {
		t.Skip("this kernel does not count them by user namespace")
	}
	s, _ := fromTemplate(t)
	if got := runScript(t, s, "python3 -c 'import ctypes; c = ctypes.CDLL(None); print(sum(c.inotify_init1(0) >= 0 for _ in range(200)))'"); got != "16\n" {
		t.Errorf("one program has %s", got)
	}
}
