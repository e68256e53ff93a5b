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

// bombReport is the report of a bomb that reaches its end; others report nothing.
type bombReport struct {
	Made  int64  `json:"made"`  // in the bomb's own unit: bytes, processes, threads, descriptors
	Error string `json:"error"` // name of the errno that stopped it, "" if it was not stopped
}

// runBomb runs one bomb of bombs.py. Each bomb bounds itself: unstopped, it ends after bound units.
func (b *bench) runBomb(t *testing.T, limits backends.Limits, kind string, bound int64) (outcome, bombReport) {
	t.Helper()
	spec := b.spec("python")
	spec.Limits = limits
	o := b.runProgramFile(t, spec, "bombs.py", kind, fmt.Sprint(bound))
	// Each line is a progress report; the last one counts.
	var last bombReport
	for line := range strings.Lines(o.Stdout) {
		var next bombReport
		if json.Unmarshal([]byte(line), &next) == nil {
			last = next
		}
	}
	t.Logf("%s: made %d, %q; ended %s %s, hit %v, peak %d MB, wall %v, cpu %v\n%.600s", kind, last.Made, last.Error, o.Ended, o.Limit,
		o.Hit, o.PeakMemory>>20, o.Wall.Round(time.Millisecond), o.CPU.Round(time.Millisecond), o.Stderr)
	return o, last
}

// runBombWithin runs a bomb that stays within the limits and completes.
func (b *bench) runBombWithin(t *testing.T, limits backends.Limits, kind string, all int64) outcome {
	t.Helper()
	o, made := b.runBomb(t, limits, kind, all)
	if o.Ended != backends.EndedOK || made.Made < all {
		t.Errorf("ended %s %s, made %d of %d, %s", o.Ended, o.Limit, made.Made, all, made.Error)
	}
	return o
}

func testLimits(t *testing.T, b *bench) {
	t.Run("memory", func(t *testing.T) { testMemory(t, b) })
	t.Run("processes", func(t *testing.T) { testProcesses(t, b) })
	t.Run("disk", func(t *testing.T) { testDisk(t, b) })
	b.runParallel(t, "descriptors", func(t *testing.T) {
		o, made := b.runBomb(t, b.spec("").Limits, "descriptors", 200_000)
		if o.Ended != backends.EndedOK || made.Made >= 200_000 || made.Error != "EMFILE" {
			t.Errorf("ended %s %s after %+v", o.Ended, o.Limit, made)
		}
	})
	b.runParallel(t, "sockets", func(t *testing.T) {
		b.needLayer(t, backends.LayerNet)
		limits := b.spec("").Limits
		limits.RAM = 1 << 30 // their possible contents count as that much
		o, made := b.runBomb(t, limits, "connections", 6000)
		if b.o.Interfaces && made.Error == "EAFNOSUPPORT" {
			t.Skip("nobody keeps the interfaces closed, so programs have no sockets of the internet")
		}
		if o.Ended != backends.EndedLimit || o.Limit != "sockets" {
			t.Errorf("ended %s %s after %+v", o.Ended, o.Limit, made)
		}
	})
	b.runParallel(t, "room", func(t *testing.T) { // rlimits that another limit bounds should not restrict programs
		const code = "import resource as r, os\n" +
			"print(r.getrlimit(r.RLIMIT_CPU)[1])\n" +
			"r.setrlimit(r.RLIMIT_CPU, (1_000_000, 1_000_000))\n" +
			"print(*r.getrlimit(r.RLIMIT_FSIZE))\n" +
			"with open('sparse', 'wb') as f: print(f.truncate(1 << 40))\n" +
			"os.remove('sparse')\n"
		want := "-1\n-1 -1\n1099511627776\n"
		if !b.promises(backends.LayerMount) { // no file system of its own bounds its writes
			want = "-1\n"
		}
		if o := b.python(t, code); !strings.HasPrefix(o.Stdout, want) {
			t.Errorf("got %q, want %q; %s %s", o.Stdout, want, o.Ended, o.Stderr)
		}
	})
	b.runParallel(t, "cpu", func(t *testing.T) {
		if !b.o.Cgroup {
			t.Skip("no cgroup")
		}
		limits := b.spec("").Limits
		limits.CPU = 0.5
		if o, _ := b.runBomb(t, limits, "cpu", 2); o.CPU > o.Wall*8/10 {
			t.Errorf("used %v of processor time in %v, want half", o.CPU, o.Wall)
		}
	})
	b.runParallel(t, "defaults", func(t *testing.T) {
		// The zero value is the default, never "no limit".
		o, made := b.runBomb(t, backends.Limits{}, "processes", 400)
		if made.Made >= 400 {
			t.Errorf("made %d processes with the default limit, %+v", made.Made, o.Result)
		}
		// The default suffices for thread pools of many cores, with their open files.
		spec := b.spec("python")
		spec.Limits = backends.Limits{}
		o = b.run(t, spec, "import threading, resource\nstop = threading.Event()\nall = [threading.Thread(target=stop.wait) for _ in "+
			"range(200)]\n"+
			"for one in all: one.start()\nstop.set()\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 1024)\n")
		if o.Ended != backends.EndedOK || o.Stdout != "True\n" {
			t.Errorf("200 threads: %+v %q %s", o.Ended, o.Stdout, o.Stderr)
		}
	})
}

// testMemory: RAM bounds all processes together, for every kind of memory.
func testMemory(t *testing.T, b *bench) {
	const limit, bound = 96 << 20, 700 << 20
	limits := backends.Limits{RAM: limit, Disk: 32 << 20, Wall: time.Hour, Processes: 30}
	for _, kind := range []string{"anonymous", "children", "leaderless", "shared", "memfd", "memfd_in_flight", "socket_buffers", "sysv",
		"huge_child_of_small", "stack", "threads_arenas"} {
		b.runParallel(t, kind, func(t *testing.T) {
			counted := kind == "socket_buffers" && b.promises(backends.LayerNet) // the kernel charges each one
			if !b.o.Cgroup && (kind == "memfd_in_flight" || kind == "socket_buffers" && !counted) {
				t.Skip("no cgroup, and nothing else counts what only the kernel holds")
			}
			o, made := b.runBomb(t, limits, kind, bound)
			if made.Error == "EPERM" && made.Made == 0 && !b.promises(backends.LayerIPC) {
				return // objects that would outlive the sandbox are refused
			}
			if made.Made >= bound {
				t.Fatalf("nothing stopped it at %d MB", made.Made>>20)
			}
			many := counted && o.Ended == backends.EndedLimit && o.Limit == "sockets"
			if !many && (o.Ended != backends.EndedOOM || o.Limit != "ram") {
				t.Errorf("ended %s, limit %q, exit code %d; want oom, ram", o.Ended, o.Limit, o.ExitCode)
			}
			if over := limit + limits.Disk + 48<<20; b.o.Cgroup && !many && made.Made > over { // the kernel itself enforces that
				t.Errorf("held %d MB, limit %d MB", made.Made>>20, limit>>20)
			}
			if o.ExitCode == 0 {
				t.Error("exit code 0")
			}
		})
	}
	for _, kind := range []string{"tcp_buffers", "udp_buffers", "tcp_unaccepted"} {
		b.runParallel(t, kind, func(t *testing.T) {
			b.needLayer(t, backends.LayerNet)
			b.needSocketCounting(t)
			limits := limits
			limits.RAM, limits.Disk = 48<<20, 4<<20
			o, made := b.runBomb(t, limits, kind, 96<<20) // and then it waits
			if o.Ended != backends.EndedOOM || o.Limit != "ram" {
				t.Errorf("ended %s %s with %d MB in sockets; want oom, ram", o.Ended, o.Limit, made.Made>>20)
			}
		})
	}
	b.runParallel(t, "below the limit", func(t *testing.T) {
		limits := limits
		limits.RAM = 256 << 20
		if o := b.runBombWithin(t, limits, "anonymous", 150<<20); o.PeakMemory < 140<<20 || o.PeakMemory > 260<<20 {
			t.Errorf("peak memory %d MB, want about 160", o.PeakMemory>>20)
		}
	})
	// Node, Go, Java and sanitizers reserve far more address space than they use.
	b.runParallel(t, "not by reserving", func(t *testing.T) { b.runBombWithin(t, limits, "reserve", 64<<30) })
	b.runParallel(t, "not as sanitizers do", func(t *testing.T) {
		if !b.o.Cgroup {
			t.Skip("no cgroup, so each process's own memory is bounded")
		}
		// Their reservation counts as writable memory.
		o := b.python(t, "import mmap\nmmap.mmap(-1, 1 << 44, mmap.MAP_PRIVATE | 0x4000)\nprint('all')") // MAP_NORESERVE
		if o.Ended != backends.EndedOK || o.Stdout != "all\n" {
			t.Errorf("ended %s %s: %s", o.Ended, o.Limit, o.Stderr)
		}
	})
	b.runParallel(t, "not without bound between two polls", func(t *testing.T) {
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
	b.runParallel(t, "node", func(t *testing.T) {
		spec := b.spec("node")
		spec.Limits = limits
		spec.Limits.RAM = 160 << 20
		o := mustExec(t, b.start(t, spec), "node", "-e", "const a = []; while (a.length < 100) a.push(Buffer.alloc(10 << 20, 1)); "+
			"console.log('all')")
		if o.Ended != backends.EndedOOM || o.Stdout != "" {
			t.Errorf("ended %s %s %s, %q %.300s", o.Ended, o.Limit, o.Signal, o.Stdout, o.Stderr)
		}
	})
	roomy := limits // in a separate variable, since the parallel cases run later
	roomy.Disk = 400 << 20
	b.runParallel(t, "files in the workspace are not memory", func(t *testing.T) { b.runBombWithin(t, roomy, "disk_workspace", 300<<20) })
	b.runParallel(t, "the disk limit does not raise memory's", func(t *testing.T) {
		o, made := b.runBomb(t, roomy, "anonymous_and_stay", limit+roomy.Disk/2)
		if o.Ended != backends.EndedOOM || o.Limit != "ram" {
			t.Errorf("ended %s %s, held %d MB with a limit of %d MB", o.Ended, o.Limit, made.Made>>20, limit>>20)
		}
	})
}

// needSocketCounting skips a test if nothing counts the data in accepted connections.
func (b *bench) needSocketCounting(t *testing.T) {
	t.Helper()
	if !b.o.Cgroup {
		t.Skip("no cgroup, and nothing else counts what only the kernel holds")
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil && b.o.OwnDisks {
		t.Skip("cgroup v1, in which an engine sets no limit of sockets")
	}
}

// testProcesses: bombs of processes and threads are stopped, and the program can report it.
func testProcesses(t *testing.T, b *bench) {
	limits := backends.Limits{RAM: 256 << 20, Wall: time.Hour, Processes: 12}
	for _, kind := range []string{"processes", "threads", "double_forks"} {
		b.runParallel(t, kind, func(t *testing.T) {
			o, made := b.runBomb(t, limits, kind, 400)
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
	b.runParallel(t, "storm", func(t *testing.T) {
		// Each process forks twice, eight times over: 512 processes without a limit.
		if o, made := b.runBomb(t, limits, "storm", 8); o.Ended != backends.EndedOK || made.Made > 100 {
			t.Errorf("ended %s %s, %d at once", o.Ended, o.Limit, made.Made)
		}
	})
	b.runParallel(t, "node starts", func(t *testing.T) {
		spec := b.spec("node")
		spec.Limits = backends.Limits{Processes: 1}
		mustExec(t, b.start(t, spec), "node", "-e", "require('fs').promises.readFile('/etc/passwd').then(() => console.log('ok'))").mustSucceed(t)
	})
}

// testDisk: a full disk is ENOSPC, for all directories together, and the program lives on.
func testDisk(t *testing.T, b *bench) {
	const limit = 24 << 20
	limits := backends.Limits{RAM: 256 << 20, Disk: limit, Wall: time.Hour}
	for _, kind := range []string{"disk_workspace", "disk_tmp", "disk_shm", "disk_all"} {
		b.runParallel(t, kind, func(t *testing.T) {
			if !b.promises(backends.LayerMount) {
				b.testWatchedDisk(t, limits, kind)
				return
			}
			if b.o.OwnDisks && kind == "disk_all" {
				o, made := b.runBomb(t, limits, "disk_all_and_stay", 200<<20)
				checkOverDisk(t, o, made, limit)
				return
			}
			o, made := b.runBomb(t, limits, kind, 200<<20)
			if o.Ended != backends.EndedOK || made.Error != "ENOSPC" {
				t.Errorf("ended %s %s, exit code %d, %s; want ok and ENOSPC", o.Ended, o.Limit, o.ExitCode, made.Error)
			}
			if made.Made > limit+1<<20 || made.Made < limit/4 {
				t.Errorf("wrote %d MB, limit %d MB", made.Made>>20, limit>>20)
			}
		})
	}
	b.runParallel(t, "large shared memory", func(t *testing.T) {
		b.needLayer(t, backends.LayerMount)
		// Browsers and data loaders need more of /dev/shm than the usual 64 MB.
		limits := limits
		limits.Disk = 256 << 20
		b.runBombWithin(t, limits, "disk_shm", 160<<20)
	})
	b.runParallel(t, "other places", func(t *testing.T) {
		// No other writable path has more room.
		if b.o.OwnDisks {
			o, made := b.runBomb(t, limits, "disk_anywhere_and_stay", 100<<20)
			checkOverDisk(t, o, made, limit)
			return
		}
		if o, made := b.runBomb(t, limits, "disk_anywhere", 100<<20); made.Made > limit+8<<20 {
			t.Errorf("ended %s %s, wrote %d MB in all", o.Ended, o.Limit, made.Made>>20)
		}
	})
	b.runParallel(t, "inodes", func(t *testing.T) {
		// An empty file takes no block, but a kilobyte of kernel memory.
		limits := limits
		limits.Disk = 4 << 20
		if o, made := b.runBomb(t, limits, "inodes", 1_000_000); made.Made >= 1_000_000 {
			t.Errorf("made %d files, ended %s", made.Made, o.Ended)
		}
	})
	b.runParallel(t, "a large file", func(t *testing.T) {
		o, made := b.runBomb(t, limits, "sparse", 1<<40)
		t.Logf("a sparse file of %d bytes, %s", made.Made, made.Error)
		if o.Ended == backends.EndedOOM || o.Ended == backends.EndedTimeout {
			t.Errorf("ended %s %s", o.Ended, o.Limit)
		}
	})
}

// checkOverDisk checks a program on several file systems with the limit's size each, which can briefly hold three
// times as much. It must not end successfully, and must not exceed the sum.
func checkOverDisk(t *testing.T, o outcome, made bombReport, limit int64) {
	t.Helper()
	if o.Ended != backends.EndedLimit || o.Limit != "disk" {
		t.Errorf("ended %s %s, exit code %d; want limit, disk", o.Ended, o.Limit, o.ExitCode)
	}
	if made.Made > 3*limit+1<<20 || made.Made < limit/4 {
		t.Errorf("wrote %d MB, limit %d MB", made.Made>>20, limit>>20)
	}
}

// testWatchedDisk: without a file system of its own, a workspace is bounded by the size of each file and by a
// watcher that ends the program.
func (b *bench) testWatchedDisk(t *testing.T, limits backends.Limits, kind string) {
	t.Helper()
	if kind != "disk_workspace" {
		t.Skip("only the workspace can be written to")
	}
	o, made := b.runBomb(t, limits, kind, 200<<20)
	stopped := made.Error != "" || o.Ended == backends.EndedLimit && o.Limit == "disk"
	if !stopped || made.Made > limits.Disk*2 {
		t.Errorf("ended %s %s, wrote %d MB, %s", o.Ended, o.Limit, made.Made>>20, made.Error)
	}
}
