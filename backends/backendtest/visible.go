//go:build linux

package backendtest

import (
	"encoding/json"
	"fmt"
	host "os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// testVisible: a program and its runtime see the sandbox's limits, not the host's, and can't change the files that
// show them.
func testVisible(t *testing.T, b *bench) {
	b.needLayer(t, backends.LayerMount)
	if b.o.Unseen && !b.o.MemInfo {
		t.Skip("nothing can be mounted over the host's files here")
	}
	limits := backends.Limits{RAM: 192 << 20, Disk: 64 << 20, CPU: 1.5, Processes: 60}
	cores := min(2, runtime.NumCPU())
	b.runParallel(t, "files", func(t *testing.T) {
		spec := b.spec("python")
		spec.Limits = limits
		var args []string
		if !b.o.Static {
			args = []string{strconv.Itoa(48 << 20)} // bytes to use
		}
		var saw struct {
			Memory                    map[string]int64
			Processors, Stat, CPUInfo int
			Quota                     float64
			Cgroup                    int64
			Changed, Others, Roots    []string
		}
		b.reportVisible(t, spec, &saw, "visible.py", args...)
		if saw.Memory["MemTotal"] != limits.RAM || saw.Memory["SwapTotal"] != 0 || saw.Memory["MemAvailable"] > limits.RAM {
			t.Errorf("/proc/meminfo: %v, want %d in all", saw.Memory, limits.RAM)
		}
		if b.o.Unseen {
			return
		}
		if saw.Processors != cores || saw.Stat != cores || saw.CPUInfo != cores && saw.CPUInfo != 0 {
			t.Errorf("%d processors, %d in /proc/stat, %d in /proc/cpuinfo; want %d", saw.Processors, saw.Stat, saw.CPUInfo, cores)
		}
		counts := b.o.Cgroup || !b.o.Static
		if counts && (saw.Cgroup != limits.RAM || saw.Quota != limits.CPU) {
			t.Errorf("the cgroup's limits are %d and %v, want %d and %v", saw.Cgroup, saw.Quota, limits.RAM, limits.CPU)
		}
		if !counts { // without a cgroup of its own, a container on v1 has the host's names, as in the attack cgroups of isolation.py
			saw.Others = nil
		}
		if len(saw.Changed)+len(saw.Others) > 0 || slices.ContainsFunc(saw.Roots, func(root string) bool { return root != "/" && !b.o.Static }) {
			t.Errorf("changed %v, sees the cgroups %v, mounted %v", saw.Changed, saw.Others, saw.Roots)
		}
	})
	b.runParallel(t, "variables", func(t *testing.T) {
		spec := b.spec("shell")
		spec.Limits = limits
		const code = "echo $GOMEMLIMIT $GOMAXPROCS $((DOTNET_GCHeapHardLimit)) $DOTNET_PROCESSOR_COUNT $R_MAX_VSIZE"
		o := mustExec(t, b.start(t, spec), "bash", "-c", code).mustSucceed(t)
		want := fmt.Sprintln(limits.RAM/8*7, cores, limits.RAM/8*6, cores, limits.RAM/8*7)
		if o.Stdout != want {
			t.Errorf("got %q, want %q", o.Stdout, want)
		}
	})
	if b.o.Unseen {
		return
	}
	b.runParallel(t, "changed", func(t *testing.T) {
		spec := b.spec("shell")
		spec.Limits, spec.Keep = limits, true
		s := b.start(t, spec)
		for _, ram := range []int64{96 << 20, 1200 << 20} {
			if _, err := s.Limit(backends.Limits{RAM: ram}); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprint(ram>>10, " kB\n")
			if o := mustExec(t, s, "grep", "MemTotal", "/proc/meminfo"); !strings.HasSuffix(o.Stdout, want) {
				t.Errorf("sees %q, want %q", o.Stdout, want)
			}
		}
	})
	b.runParallel(t, "node", func(t *testing.T) {
		spec := b.spec("node")
		spec.Limits = limits
		var saw struct {
			Memory, Heap int64
			Processors   int
		}
		b.reportVisible(t, spec, &saw, "visible.js")
		if saw.Memory != limits.RAM || saw.Processors != cores || saw.Heap > 300<<20 { // 256 MiB is the minimum
			t.Errorf("got %+v, want %d bytes and %d processors", saw, limits.RAM, cores)
		}
	})
	t.Run("java", func(t *testing.T) { testJava(t, b, limits) })
}

// reportVisible runs a program that reports the limits it sees.
func (b *bench) reportVisible(t *testing.T, spec backends.Spec, saw any, program string, args ...string) {
	t.Helper()
	o := b.runProgramFile(t, spec, program, args...).mustSucceed(t)
	if err := json.Unmarshal([]byte(o.Stdout), saw); err != nil {
		t.Fatalf("%v: %q %s", err, o.Stdout, o.Stderr)
	}
}

// testJava: a JVM sizes its heap by the sandbox's memory, not the host's, and prints nothing about it.
func testJava(t *testing.T, b *bench, limits backends.Limits) {
	if b.o.Static && !b.o.Cgroup {
		t.Skip("a JVM reads cgroups, and the engine sets no limits in them")
	}
	if _, err := host.LookPath("java"); err != nil || b.o.Has != nil {
		b.skipMissing(t, "java", "not installed")
		return
	}
	b.parallel(t)
	spec := b.spec("shell")
	spec.Limits = limits
	o := mustExec(t, b.start(t, spec), "java", "-XX:+PrintFlagsFinal", "-version").mustSucceed(t)
	heap := regexp.MustCompile(`MaxHeapSize += (\d+)`).FindStringSubmatch(o.Stdout)
	if heap == nil {
		t.Fatalf("says nothing of its heap: %.300s", o.Stdout)
	}
	if n, err := strconv.ParseInt(heap[1], 10, 64); err != nil || n > limits.RAM/2 {
		t.Errorf("a heap of %s bytes in %d", heap[1], limits.RAM)
	}
	if strings.Contains(o.Stderr, "icked up") {
		t.Errorf("it says: %s", o.Stderr)
	}
}
