package cgroup

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readNumber reads a file of the cgroup that holds one number; 0 on failure.
func (g *Group) readNumber(controller, v1, v2 string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(g.readFile(controller, v1, v2)), 10, 64)
	return n
}

// readField reads one line "key number" of a file of the cgroup.
func (g *Group) readField(controller, v1, v2, key string) int64 {
	return fieldOf(g.readFile(controller, v1, v2), key)
}

func fieldOf(text, key string) int64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// readFile reads a file of the cgroup by its name in v1 and in v2; "" on failure. A reusable cgroup keeps the file open.
func (g *Group) readFile(controller, v1, v2 string) string {
	name := v1
	if g.V2() {
		controller, name = "", v2
	}
	fd, cached, err := g.open(controller, name)
	if err != nil {
		return ""
	}
	if !cached {
		defer unix.Close(fd)
	}
	text, _ := readAll(fd)
	return text
}

// readOnce reads a small file of the kernel's. Package os would register it with the poller, which some of these files
// support.
func readOnce(name string) (string, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readAll(fd)
}

// readAll reads a file that the kernel produces in one piece, from its start.
func readAll(fd int) (string, error) {
	var buf [8 << 10]byte // memory.stat is the longest, with 2 KiB
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// open opens a file for reading, or returns the cached descriptor.
func (g *Group) open(controller, name string) (fd int, cached bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fd, cached = g.openFDs[name]; cached {
		return fd, true, nil
	}
	if fd, err = unix.Open(filepath.Join(g.paths[controller], name), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, false, err
	}
	if g.spares == nil || g.V2() {
		return fd, false, nil
	}
	g.openFDs[name] = fd
	return fd, true, nil
}

// Usage returns all memory that is charged to the cgroup, in bytes.
func (g *Group) Usage() int64 {
	sum := g.readNumber("memory", "memory.usage_in_bytes", "memory.current")
	if !g.V2() {
		sum += g.sockets("")
	}
	return sum
}

// sockets returns the bytes in buffers of TCP and UDP; stat is v2's memory.stat.
func (g *Group) sockets(stat string) int64 {
	if g.V2() {
		return fieldOf(stat, "sock")
	}
	return g.readNumber("memory", "memory.kmem.tcp.usage_in_bytes", "")
}

// Peak returns the maximum so far, in bytes.
func (g *Group) Peak() int64 {
	return g.readNumber("memory", "memory.max_usage_in_bytes", "memory.peak")
}

// OOMKills returns how many processes the kernel has killed because of the memory limit.
func (g *Group) OOMKills() int64 {
	return g.readField("memory", "memory.oom_control", "memory.events", "oom_kill")
}

// ForksRefused returns how many forks the limit has denied.
func (g *Group) ForksRefused() int64 { return g.readField("pids", "pids.events", "pids.events", "max") }

// Anonymous returns the processes' memory without file pages: private memory, shared memory, memfds, files on
// tmpfs, and socket buffers.
func (g *Group) Anonymous() int64 {
	private := "rss"
	if g.V2() {
		private = "anon"
	}
	stat := g.readFile("memory", "memory.stat", "memory.stat") // read once: the kernel computes it for each read
	return fieldOf(stat, private) + fieldOf(stat, "shmem") + g.sockets(stat)
}

// CPU returns the time that all processes together have used, where the cgroup counts it.
func (g *Group) CPU() time.Duration {
	if g.V2() {
		return time.Duration(g.readField("cpu", "", "cpu.stat", "usage_usec")) * time.Microsecond
	}
	return time.Duration(g.readNumber("cpuacct", "cpuacct.usage", "")) // nanoseconds
}
