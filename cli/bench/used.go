package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// used is what servers and their sandboxes use of the machine; 0 is unknown.
type used struct {
	idle, loaded float64            // MB of RAM (RSS) that a server holds which nothing was asked of yet, and after the load
	slot         map[string]float64 // MB of RAM (PSS) that a sandbox holds which stands ready, by language
	server, bash float64            // ms of CPU time for one shell run: by the server's process; by the bare command
}

// idleMemory asks what those sandboxes hold that stand ready just now.
func (b *bench) idleMemory(ctx context.Context) {
	if b.warm == nil {
		return
	}
	b.used.idle, b.used.slot = b.warm.idle, map[string]float64{}
	var stats struct {
		Pools []struct {
			Language string  `json:"language"`
			Ready    float64 `json:"ready"`
			Memory   float64 `json:"memory_bytes"`
		} `json:"pools"`
	}
	err := b.warm.call(ctx, "sandbox_stats", map[string]any{}, &stats)
	ready, memory := map[string]float64{}, map[string]float64{}
	for _, p := range stats.Pools {
		ready[p.Language] += p.Ready
		memory[p.Language] += p.Memory
	}
	for _, p := range b.programs {
		switch n := ready[p.Language]; {
		case err != nil:
			b.leaveOut("memory of an idle sandbox, "+p.Language, err)
		case n == 0:
			b.leaveOut("memory of an idle sandbox, "+p.Language, errors.New("none stood ready after the runs"))
		default:
			b.used.slot[p.Language] = round(memory[p.Language] / n / 1e6)
		}
	}
}

func (b *bench) loadedMemory(ctx context.Context) {
	if b.warm != nil {
		b.say(ctx, "looking at memory")
		pause(ctx, 2*time.Second) // what the load left is put away
		b.used.loaded = resident(b.warm.cmd.Process.Pid)
	}
}

// processor measures the CPU time of a server for shell runs that find a sandbox ready, that included which it
// takes to have the next one ready, and bash's own for the same. The server has nothing else to do; what runs in sandboxes is
// not its own.
func (b *bench) processor(ctx context.Context) {
	const what = "CPU time of the server"
	var shell *Program
	for _, p := range b.programs {
		if p.Language == "shell" {
			shell = p
		}
	}
	if shell == nil || b.warm == nil {
		return
	}
	b.say(ctx, what)
	s, err := b.serve(ctx, "processor")
	if err != nil {
		b.leaveOut(what, err)
		return
	}
	w := &Variant{pooled: true, Once: s.program(shell)}
	w.series(ctx, 3)
	before := processorTime(s.cmd.Process.Pid)
	taken := w.series(ctx, b.Runs)
	used := processorTime(s.cmd.Process.Pid) - before
	switch r := w.ready(taken); {
	case w.Broken != nil:
		b.leaveOut(what, w.Broken)
	case r.Found*20 < r.Runs*19:
		b.leaveOut(what, fmt.Errorf("only %d of %d runs found a sandbox ready", r.Found, r.Runs))
	case used == 0:
		b.leaveOut(what, errors.New("the system does not tell, or not for so few runs"))
	default:
		b.used.server = round(used / float64(r.Runs))
	}
	for range b.Runs {
		cmd := command(ctx, Clean(), shell.Bare()...)
		if finish(cmd) != nil {
			return
		}
		b.used.bash += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() * 1e3 / float64(b.Runs)
	}
}

// processorTime returns how much CPU time a process and those that it waited for have had, in ms, by proc_pid_stat(5);
// 0 where the system does not tell.
func processorTime(pid int) (ms float64) {
	const tick = 10 // ms, of what the kernel tells user space, whatever its own is
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third on
	for _, field := range []int{14, 15, 16, 17} {
		n, _ := strconv.ParseFloat(string(fields[field-3]), 64)
		ms += n * tick
	}
	return ms
}

// resident returns how much RAM a process holds, in MB, also what it shares; 0 where the system does not tell.
func resident(pid int) float64 {
	kb, _ := strconv.ParseFloat(strings.TrimSuffix(field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS", ":"), " kB"), 64)
	return round(kb * 1024 / 1e6)
}
