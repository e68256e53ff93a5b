//go:build linux

package backendtest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// bomb is what a program of bombs says at its end; one that does not get there says nothing.
type bomb struct {
	Made  int64  `json:"made"`  // in the bomb's own unit: bytes, processes, threads, descriptors
	Error string `json:"error"` // the name of the errno that stopped it, "" when it was not stopped
}

// drop runs one bomb of bombs.py. Each is bounded in itself: what nothing stops ends anyway,
// having made bound.
func (b *bench) drop(t *testing.T, limits backends.Limits, kind string, bound int64) (outcome, bomb) {
	t.Helper()
	spec := b.spec("python")
	spec.Limits = limits
	o := b.program(t, spec, "bombs.py", kind, fmt.Sprint(bound))
	// Each line is a progress report; the last one counts.
	var last bomb
	for line := range strings.Lines(o.Stdout) {
		var next bomb
		if json.Unmarshal([]byte(line), &next) == nil {
			last = next
		}
	}
	t.Logf("%s: made %d, %q; ended %s %s, hit %v, peak %d MB, wall %v, cpu %v\n%.600s", kind, last.Made, last.Error, o.Ended, o.Limit,
		o.Hit, o.PeakMemory>>20, o.Wall.Round(time.Millisecond), o.CPU.Round(time.Millisecond), o.Stderr)
	return o, last
}

// makes runs a bomb that is within the limits, and makes all that it is to.
func (b *bench) makes(t *testing.T, limits backends.Limits, kind string, all int64) outcome {
	t.Helper()
	o, made := b.drop(t, limits, kind, all)
	if o.Ended != backends.EndedOK || made.Made < all {
		t.Errorf("ended %s %s, made %d of %d, %s", o.Ended, o.Limit, made.Made, all, made.Error)
	}
	return o
}

func testLimits(t *testing.T, b *bench) {
	t.Run("memory", func(t *testing.T) { testMemory(t, b) })
	t.Run("processes", func(t *testing.T) { testProcesses(t, b) })
	t.Run("disk", func(t *testing.T) { testDisk(t, b) })
	b.beside(t, "descriptors", func(t *testing.T) {
		o, made := b.drop(t, b.spec("").Limits, "descriptors", 200_000)
		if o.Ended != backends.EndedOK || made.Made >= 200_000 || made.Error != "EMFILE" {
			t.Errorf("ended %s %s after %+v", o.Ended, o.Limit, made)
		}
	})
	b.beside(t, "sockets", func(t *testing.T) {
		b.layer(t, backends.LayerNet)
		limits := b.spec("").Limits
		limits.RAM = 1 << 30 // what they might hold is counted as that
		o, made := b.drop(t, limits, "connections", 6000)
		if b.o.Interfaces && made.Error == "EAFNOSUPPORT" {
			t.Skip("nobody keeps the interfaces closed, so programs have no sockets of the internet")
		}
		if o.Ended != backends.EndedLimit || o.Limit != "sockets" {
			t.Errorf("ended %s %s after %+v", o.Ended, o.Limit, made)
		}
	})
	b.beside(t, "room", func(t *testing.T) { // in limits that another one bounds, as programs expect it
		const code = "import resource as r, os\n" +
			"print(r.getrlimit(r.RLIMIT_CPU)[1])\n" +
			"r.setrlimit(r.RLIMIT_CPU, (1_000_000, 1_000_000))\n" +
			"print(*r.getrlimit(r.RLIMIT_FSIZE))\n" +
			"with open('sparse', 'wb') as f: print(f.truncate(1 << 40))\n" +
			"os.remove('sparse')\n"
		want := "-1\n-1 -1\n1099511627776\n"
		if !b.promises(backends.LayerMount) { // no file system of its own bounds what it writes
			want = "-1\n"
		}
		if o := b.python(t, code); !strings.HasPrefix(o.Stdout, want) {
			t.Errorf("got %q, want %q; %s %s", o.Stdout, want, o.Ended, o.Stderr)
		}
	})
	b.beside(t, "cpu", func(t *testing.T) {
		if !b.o.Cgroup {
			t.Skip("no cgroup")
		}
		limits := b.spec("").Limits
		limits.CPU = 0.5
		if o, _ := b.drop(t, limits, "cpu", 2); o.CPU > o.Wall*8/10 {
			t.Errorf("used %v of processor time in %v, want half", o.CPU, o.Wall)
		}
	})
	b.beside(t, "defaults", func(t *testing.T) {
		// The zero value is the default, never "no limit".
		o, made := b.drop(t, backends.Limits{}, "processes", 400)
		if made.Made >= 400 {
			t.Errorf("made %d processes with the default limit, %+v", made.Made, o.Result)
		}
		// It is one that pools of threads for many cores fit in, with the files that they have open.
		spec := b.spec("python")
		spec.Limits = backends.Limits{}
		o = b.run(t, spec, "import threading, resource\nstop = threading.Event()\nall = [threading.Thread(target=stop.wait) for _ in range(200)]\n"+
			"for one in all: one.start()\nstop.set()\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 1024)\n")
		if o.Ended != backends.EndedOK || o.Stdout != "True\n" {
			t.Errorf("200 threads: %+v %q %s", o.Ended, o.Stdout, o.Stderr)
		}
	})
}

// testMemory: RAM bounds what all processes hold together, however they hold it.
func testMemory(t *testing.T, b *bench) {
	const limit, bound = 96 << 20, 700 << 20
	limits := backends.Limits{RAM: limit, Disk: 32 << 20, Wall: time.Hour, Processes: 30}
	for _, kind := range []string{"anonymous", "children", "leaderless", "shared", "memfd", "memfd_in_flight", "socket_buffers", "sysv", "huge_child_of_small", "stack", "threads_arenas"} {
		b.beside(t, kind, func(t *testing.T) {
			counted := kind == "socket_buffers" && b.promises(backends.LayerNet) // one by one
			if !b.o.Cgroup && (kind == "memfd_in_flight" || kind == "socket_buffers" && !counted) {
				t.Skip("no cgroup, and nothing else counts what only the kernel holds")
			}
			o, made := b.drop(t, limits, kind, bound)
			if made.Error == "EPERM" && made.Made == 0 && !b.promises(backends.LayerIPC) {
				return // what would outlive the sandbox is refused
			}
			if made.Made >= bound {
				t.Fatalf("nothing stopped it at %d MB", made.Made>>20)
			}
			many := counted && o.Ended == backends.EndedLimit && o.Limit == "sockets"
			if !many && (o.Ended != backends.EndedOOM || o.Limit != "ram") {
				t.Errorf("ended %s, limit %q, exit code %d; want oom, ram", o.Ended, o.Limit, o.ExitCode)
			}
			if over := limit + limits.Disk + 48<<20; b.o.Cgroup && !many && made.Made > over { // the kernel itself keeps to that
				t.Errorf("held %d MB, limit %d MB", made.Made>>20, limit>>20)
			}
			if o.ExitCode == 0 {
				t.Error("exit code 0")
			}
		})
	}
	for _, kind := range []string{"tcp_buffers", "udp_buffers", "tcp_unaccepted"} {
		b.beside(t, kind, func(t *testing.T) {
			b.layer(t, backends.LayerNet)
			b.countsSockets(t)
			limits := limits
			limits.RAM, limits.Disk = 48<<20, 4<<20
			o, made := b.drop(t, limits, kind, 96<<20) // and then it stays
			if o.Ended != backends.EndedOOM || o.Limit != "ram" {
				t.Errorf("ended %s %s with %d MB in sockets; want oom, ram", o.Ended, o.Limit, made.Made>>20)
			}
		})
	}
	b.beside(t, "below the limit", func(t *testing.T) {
		limits := limits
		limits.RAM = 256 << 20
		if o := b.makes(t, limits, "anonymous", 150<<20); o.PeakMemory < 140<<20 || o.PeakMemory > 260<<20 {
			t.Errorf("peak memory %d MB, want about 160", o.PeakMemory>>20)
		}
	})
	// Node, Go, Java and sanitizers reserve far more address space than they use.
	b.beside(t, "not by reserving", func(t *testing.T) { b.makes(t, limits, "reserve", 64<<30) })
	b.beside(t, "not as sanitizers do", func(t *testing.T) {
		if !b.o.Cgroup {
			t.Skip("no cgroup, so each process's own memory is bounded")
		}
		// Theirs counts as memory to write to.
		o := b.python(t, "import mmap\nmmap.mmap(-1, 1 << 44, mmap.MAP_PRIVATE | 0x4000)\nprint('all')") // MAP_NORESERVE
		if o.Ended != backends.EndedOK || o.Stdout != "all\n" {
			t.Errorf("ended %s %s: %s", o.Ended, o.Limit, o.Stderr)
		}
	})
	b.beside(t, "not without bound between two polls", func(t *testing.T) {
		if b.o.Cgroup || b.o.Memory {
			t.Skip("a cgroup checks all the time")
		}
		spec := b.spec("python")
		spec.Limits = limits
		o := b.run(t, spec, "import mmap\nmmap.mmap(-1, 5 << 28, mmap.MAP_PRIVATE)")
		if o.Ended != backends.EndedExit || !strings.Contains(o.Stderr, "Cannot allocate memory") {
			t.Errorf("ended %s, %s; want no 1.25 GiB of memory to write to", o.Ended, o.Stderr)
		}
	})
	b.beside(t, "node", func(t *testing.T) {
		spec := b.spec("node")
		spec.Limits = limits
		spec.Limits.RAM = 160 << 20
		o := exec(t, b.start(t, spec), "node", "-e", "const a = []; while (a.length < 100) a.push(Buffer.alloc(10 << 20, 1)); console.log('all')")
		if o.Ended != backends.EndedOOM || o.Stdout != "" {
			t.Errorf("ended %s %s %s, %q %.300s", o.Ended, o.Limit, o.Signal, o.Stdout, o.Stderr)
		}
	})
	roomy := limits // in a variable of its own, as those beside it run later
	roomy.Disk = 400 << 20
	b.beside(t, "files in the workspace are not memory", func(t *testing.T) { b.makes(t, roomy, "disk_workspace", 300<<20) })
	b.beside(t, "the disk limit does not raise memory's", func(t *testing.T) {
		o, made := b.drop(t, roomy, "anonymous_and_stay", limit+roomy.Disk/2)
		if o.Ended != backends.EndedOOM || o.Limit != "ram" {
			t.Errorf("ended %s %s, held %d MB with a limit of %d MB", o.Ended, o.Limit, made.Made>>20, limit>>20)
		}
	})
}

// countsSockets skips a test where nothing counts what waits in accepted connections.
func (b *bench) countsSockets(t *testing.T) {
	t.Helper()
	if !b.o.Cgroup {
		t.Skip("no cgroup, and nothing else counts what only the kernel holds")
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil && b.o.OwnDisks {
		t.Skip("cgroup v1, in which an engine sets no limit of sockets")
	}
}

// testProcesses: bombs of processes and threads run into a wall, and the program can say so.
func testProcesses(t *testing.T, b *bench) {
	limits := backends.Limits{RAM: 256 << 20, Wall: time.Hour, Processes: 12}
	for _, kind := range []string{"processes", "threads", "double_forks"} {
		b.beside(t, kind, func(t *testing.T) {
			o, made := b.drop(t, limits, kind, 400)
			if made.Made >= 100 || o.Ended == backends.EndedOOM || o.Ended == backends.EndedTimeout {
				t.Errorf("ended %s %s after %+v; want EAGAIN after about 12", o.Ended, o.Limit, made)
			}
			if made.Made < 10 {
				t.Errorf("only %d could be made of 12", made.Made)
			}
			if b.o.Cgroup && !slices.Contains(o.Hit, "processes") {
				t.Errorf("hit %v lacks processes", o.Hit)
			}
		})
	}
	b.beside(t, "storm", func(t *testing.T) {
		// Each process makes two, eight times over: 512, were nothing to stop it.
		if o, made := b.drop(t, limits, "storm", 8); o.Ended != backends.EndedOK || made.Made > 100 {
			t.Errorf("ended %s %s, %d at once", o.Ended, o.Limit, made.Made)
		}
	})
	b.beside(t, "node starts", func(t *testing.T) {
		spec := b.spec("node")
		spec.Limits = backends.Limits{Processes: 1}
		exec(t, b.start(t, spec), "node", "-e", "require('fs').promises.readFile('/etc/passwd').then(() => console.log('ok'))").ok(t)
	})
}

// testDisk: a full disk is ENOSPC, for all directories together, and the program lives on.
func testDisk(t *testing.T, b *bench) {
	const limit = 24 << 20
	limits := backends.Limits{RAM: 256 << 20, Disk: limit, Wall: time.Hour}
	for _, kind := range []string{"disk_workspace", "disk_tmp", "disk_shm", "disk_all"} {
		b.beside(t, kind, func(t *testing.T) {
			if !b.promises(backends.LayerMount) {
				b.watchedDisk(t, limits, kind)
				return
			}
			if b.o.OwnDisks && kind == "disk_all" {
				o, made := b.drop(t, limits, "disk_all_and_stay", 200<<20)
				overDisk(t, o, made, limit)
				return
			}
			o, made := b.drop(t, limits, kind, 200<<20)
			if o.Ended != backends.EndedOK || made.Error != "ENOSPC" {
				t.Errorf("ended %s %s, exit code %d, %s; want ok and ENOSPC", o.Ended, o.Limit, o.ExitCode, made.Error)
			}
			if made.Made > limit+1<<20 || made.Made < limit/4 {
				t.Errorf("wrote %d MB, limit %d MB", made.Made>>20, limit>>20)
			}
		})
	}
	b.beside(t, "large shared memory", func(t *testing.T) {
		b.layer(t, backends.LayerMount)
		// Browsers and data loaders want more of /dev/shm than the 64 MB that others give.
		limits := limits
		limits.Disk = 256 << 20
		b.makes(t, limits, "disk_shm", 160<<20)
	})
	b.beside(t, "other places", func(t *testing.T) {
		// Wherever else a program may write, it is not more.
		if b.o.OwnDisks {
			o, made := b.drop(t, limits, "disk_anywhere_and_stay", 100<<20)
			overDisk(t, o, made, limit)
			return
		}
		if o, made := b.drop(t, limits, "disk_anywhere", 100<<20); made.Made > limit+8<<20 {
			t.Errorf("ended %s %s, wrote %d MB in all", o.Ended, o.Limit, made.Made>>20)
		}
	})
	b.beside(t, "inodes", func(t *testing.T) {
		// An empty file takes no block, and a kilobyte of the kernel's memory all the same.
		limits := limits
		limits.Disk = 4 << 20
		if o, made := b.drop(t, limits, "inodes", 1_000_000); made.Made >= 1_000_000 {
			t.Errorf("made %d files, ended %s", made.Made, o.Ended)
		}
	})
	b.beside(t, "a large file", func(t *testing.T) {
		o, made := b.drop(t, limits, "sparse", 1<<40)
		t.Logf("a sparse file of %d bytes, %s", made.Made, made.Error)
		if o.Ended == backends.EndedOOM || o.Ended == backends.EndedTimeout {
			t.Errorf("ended %s %s", o.Ended, o.Limit)
		}
	})
}

// overDisk: each of several file systems has the limit's size, so that a program can have three times
// as much for a moment. It must not end as if nothing were, and not have more than all of them hold.
func overDisk(t *testing.T, o outcome, made bomb, limit int64) {
	t.Helper()
	if o.Ended != backends.EndedLimit || o.Limit != "disk" {
		t.Errorf("ended %s %s, exit code %d; want limit, disk", o.Ended, o.Limit, o.ExitCode)
	}
	if made.Made > 3*limit+1<<20 || made.Made < limit/4 {
		t.Errorf("wrote %d MB, limit %d MB", made.Made>>20, limit>>20)
	}
}

// watchedDisk: without a file system of its own, a workspace is bounded by the size of each file
// and by a watcher that ends the program.
func (b *bench) watchedDisk(t *testing.T, limits backends.Limits, kind string) {
	t.Helper()
	if kind != "disk_workspace" {
		t.Skip("only the workspace can be written to")
	}
	o, made := b.drop(t, limits, kind, 200<<20)
	stopped := made.Error != "" || o.Ended == backends.EndedLimit && o.Limit == "disk"
	if !stopped || made.Made > limits.Disk*2 {
		t.Errorf("ended %s %s, wrote %d MB, %s", o.Ended, o.Limit, made.Made>>20, made.Error)
	}
}
