package process

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

// watcher enforces the limits that the kernel does not enforce for the whole tree: RAM without the workspace's
// files if there is a cgroup, and all of RAM if there is none.
type watcher struct {
	exceeded chan string // the exceeded limit, sent once
	peak     atomic.Int64
	crowded  atomic.Bool // the number of threads has reached its limit
	cpu      atomic.Int64
	quit     chan struct{}

	mu      sync.Mutex // held during a check; guards the next two
	pause   time.Duration
	last    reading
	poked   atomic.Bool // the program has received input since the last check
	tick    *time.Timer
	longest time.Duration
	poll    func(limit int64, open sockstat) reading
}

// interval is the time between polls. A program that touches 4 GB/s exceeds its limit by at most 40 MB, and a poll
// costs some microseconds while usage is low.
const interval = 10 * time.Millisecond

// lazy is the longest interval between polls of an idle session's interpreter: a thousand idle sessions must not
// keep the machine busy. The cgroup bounds their growth meanwhile.
const lazy = 320 * time.Millisecond

// startWatcher starts a watcher. Most programs end before its first check, and cost no goroutine.
func (s *Sandbox) startWatcher(lasting bool) *watcher {
	w := &watcher{exceeded: make(chan string, 1), quit: make(chan struct{}), pause: interval, longest: interval, poll: s.pollProcesses}
	if s.cgroup != nil {
		w.poll = s.pollCgroup
	}
	if lasting {
		w.longest = lazy
	}
	w.mu.Lock() // until tick is set
	defer w.mu.Unlock()
	w.tick = time.AfterFunc(interval, func() { w.check(s) })
	if !s.HasNamespaces() {
		s.using.Go(func() { w.runDisk(s) })
	}
	return w
}

// runDisk polls the size of a workspace without a file system of its own, or of several file systems together.
func (w *watcher) runDisk(s *Sandbox) {
	pause := 20 * interval
	if s.inContainer {
		pause = interval // with three system calls per poll
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-s.gone:
			return
		case <-tick.C:
		}
		if s.diskExceeded() {
			w.reportLimit("disk")
			return
		}
	}
}

// reportLimit reports an exceeded limit, unless another one is already reported.
func (w *watcher) reportLimit(limit string) {
	select {
	case w.exceeded <- limit:
	default:
	}
}

// reading is the result of one poll.
type reading struct {
	ram     int64
	threads uint64
	sockets int
	cpu     time.Duration // of the living processes, and of their reaped children
}

// check compares usage with the limits, and sets the timer for the next check, with increasing intervals up to
// longest while the readings do not change.
func (w *watcher) check(s *Sandbox) {
	done, err := s.keepOpen()
	if err != nil {
		return
	}
	defer done()
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.quit:
		return
	case <-s.gone:
		return
	default:
	}
	if w.poked.Swap(false) {
		w.pause = interval
	}
	limit := s.ram.Load()
	open := parseSockets(s.readNet("sockstat"))
	saw := w.poll(limit, open)
	saw.sockets = open.used
	if w.pause = min(2*w.pause, w.longest); saw != w.last {
		w.pause = interval
	}
	w.last = saw
	w.peak.Store(max(w.peak.Load(), saw.ram))
	w.cpu.Store(max(w.cpu.Load(), int64(saw.cpu)))
	s.refresh(saw)
	if saw.threads+1 >= s.tasks { // plus PID 1
		w.crowded.Store(true)
	}
	switch {
	case saw.ram > limit:
		w.reportLimit("ram")
		return
	case open.tooMany(tcpPressure(), s.cgroup.Enforces("memory")):
		w.reportLimit("sockets")
		return
	}
	w.tick.Reset(w.pause)
	if w.poked.Load() {
		w.tick.Reset(interval)
	}
}

// inputReceived reports that the program has received input.
func (w *watcher) inputReceived() {
	if !w.poked.Swap(true) {
		w.tick.Reset(interval)
	}
}

// stop ends the watcher's polls. It must be called once.
func (w *watcher) stop() {
	close(w.quit)
	w.tick.Stop()
}

// pollCgroup returns the cgroup's usage, or, if that exceeds limit, the part of it that counts as RAM.
func (s *Sandbox) pollCgroup(limit int64, open sockstat) reading {
	waiting := open.unacceptedBytes()
	if used := s.cgroup.Usage() + waiting; used <= limit && !s.inContainer {
		return reading{ram: used}
	}
	return reading{ram: s.chargedRAM() + waiting}
}

// chargedRAM returns the part of the cgroup's usage that counts as RAM: without files' page cache, without files on
// the sandbox's own disk, and in a container without the server's own processes, its PID 1 and the launchers.
func (s *Sandbox) chargedRAM() int64 {
	ram := s.cgroup.Anonymous()
	if !s.landlockOnly { // landlock's disk is the host's
		ram -= s.diskUsed()
	}
	if s.inContainer {
		ram -= procfs.KiB(procfs.StatusField(s.readProc("self/status"), "RssAnon"))
		for _, one := range s.backend.launchers.Running() {
			ram -= procfs.KiB(procfs.StatusField(s.readProc(strconv.Itoa(one.pid)+"/status"), "RssAnon"))
		}
	}
	return ram
}

// pollProcesses sums the memory of all processes of the sandbox. The cheap sum counts shared pages more than once;
// the exact one is computed only if the cheap one exceeds the limit.
func (s *Sandbox) pollProcesses(limit int64, open sockstat) reading {
	pids := s.pids()
	waiting := open.unacceptedBytes()
	saw := reading{ram: waiting}
	var tables int64 // page tables, which a process can enlarge with little else
	for i, pid := range pids {
		status := s.readProc(pid + "/status")
		if strings.HasPrefix(procfs.StatusField(status, "State"), "Z") {
			pids[i], status = s.liveThread(pid, status)
		}
		tables += procfs.KiB(procfs.StatusField(status, "VmPTE"))
		saw.ram += procfs.KiB(procfs.StatusField(status, "RssAnon")) + procfs.KiB(procfs.StatusField(status, "RssShmem"))
		threads, _ := strconv.ParseUint(procfs.StatusField(status, "Threads"), 10, 32)
		saw.threads += threads
		saw.cpu += procfs.CPUTime(s.readProc(pid + "/stat"))
	}
	files := s.memfds(pids) + s.segments()
	saw.ram += files
	if saw.ram += tables; saw.ram <= limit {
		return saw
	}
	var private, shared int64
	for _, pid := range pids {
		rollup := s.readProc(pid + "/smaps_rollup")
		private += procfs.KiB(procfs.StatusField(rollup, "Pss_Anon"))
		shared += procfs.KiB(procfs.StatusField(rollup, "Pss_Shmem"))
	}
	saw.ram = private + tables + max(shared, files) + waiting
	return saw
}

// unacceptedBytes returns the memory that unaccepted connections may hold, which the kernel charges to no process
// (inet_csk_accept), even after both ends are closed. The kernel reports only the number of TCP sockets: a few are
// ignored, and each further socket counts with its maximum, by tcp_rmem.
func (n sockstat) unacceptedBytes() int64 {
	const few = 256
	return max(0, int64(n.tcp)-few) * socketBytes
}

// liveThread returns a thread of a process whose main thread has ended, and its status: the process lives on, and
// the kernel reports no memory under its own PID. A thread ID is a name in /proc, too, although not listed.
func (s *Sandbox) liveThread(pid string, status []byte) (string, []byte) {
	dir, err := os.Open(s.procName(pid + "/task"))
	if err != nil {
		return pid, status
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if own := s.readProc(name + "/status"); procfs.StatusField(own, "RssAnon") != "" {
			return name, own
		}
	}
	return pid, status
}

// segments sums System V shared memory, attached or not: the column rss, in bytes, of /proc/sysvipc/shm.
func (s *Sandbox) segments() int64 {
	text, _ := io.ReadAll(io.NewSectionReader(s.shm, 0, 16<<20))
	var sum int64
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 16 {
			rss, _ := strconv.ParseInt(fields[14], 10, 64) // the first line has a heading
			sum += rss
		}
	}
	return sum
}

// memfds sums the memory files that processes have open, whose content belongs to no process's memory.
func (s *Sandbox) memfds(pids []string) int64 {
	var sum int64
	seen := map[uint64]bool{}
	for _, pid := range pids {
		dir := s.procName(pid + "/fd")
		names, _ := os.ReadDir(dir)
		for _, n := range names {
			at := filepath.Join(dir, n.Name())
			if target, err := os.Readlink(at); err != nil || !strings.HasPrefix(target, "/memfd:") {
				continue
			}
			info, err := os.Stat(at)
			if err != nil {
				continue
			}
			if st := info.Sys().(*syscall.Stat_t); !seen[st.Ino] {
				seen[st.Ino] = true
				sum += st.Blocks * 512
			}
		}
	}
	return sum
}

// Usage implements [backends.Sandbox].
func (s *Sandbox) Usage() backends.Usage {
	done, err := s.keepOpen()
	if err != nil {
		return backends.Usage{}
	}
	defer done()
	u := s.sample(true)
	u.Processes, u.Disk = len(s.pids()), s.diskUsed()
	return u
}

// Sample implements [backends.Sandbox].
func (s *Sandbox) Sample(memory bool) func() backends.Usage {
	var u backends.Usage
	if done, err := s.keepOpen(); err == nil {
		u = s.sample(memory)
		done()
	}
	return func() backends.Usage { return u }
}

// sample measures CPU and, if memory is true, memory.
func (s *Sandbox) sample(memory bool) (u backends.Usage) {
	u.Lost = s.lostPackets()
	if s.cgroup == nil {
		saw := s.pollProcesses(0, sockstat{})
		u.CPU, u.Memory = saw.cpu, saw.ram
		return u
	}
	u.CPU = s.cgroup.CPU()
	if memory {
		u.Memory = max(0, s.chargedRAM())
	}
	return u
}

// Limit implements [backends.Sandbox].
func (s *Sandbox) Limit(l backends.Limits) (backends.Limits, error) {
	done, err := s.keepOpen()
	if err != nil {
		return backends.Limits{}, err
	}
	defer done()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := backends.Limits{RAM: l.RAM}
	if s.cgroup != nil {
		next.CPU, next.Processes = l.CPU, l.Processes
	}
	next = next.WithFallback(s.inForce)
	if err := s.cgroup.Limit(boundsOf(next, uint64(backends.MaxTasks(s.runtime.Name, next.Processes)))); err != nil {
		return s.inForce, err
	}
	s.inForce = next
	s.ram.Store(next.RAM)
	s.writeRAM(next.RAM)
	return next, nil
}
