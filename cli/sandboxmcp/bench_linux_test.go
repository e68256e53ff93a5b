package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/bench"
)

// benchCommand returns a bench command for which only bash and sandboxmcp are installed.
func benchCommand(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	requireFeatures(t, "sandbox", "bash")
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.Symlink(bash, filepath.Join(path, "bash")); err != nil {
		t.Fatal(err)
	}
	cmd := command(t.Context(), t, home, append([]string{"bench", "--quick", "--language", "shell"}, args...)...)
	cmd.Env = append(cmd.Env, "PATH="+path)
	return cmd
}

// TestBench measures for real and checks the report.
func TestBench(t *testing.T) {
	home := t.TempDir()
	cmd := benchCommand(t, home, "--runs", "3", "--json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var r bench.Report
	d := json.NewDecoder(bytes.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	checkLatency(t, r)
	checkLoad(t, r)
	if r.Machine.Cores < 1 || r.Machine.CPU == "" || r.Machine.Versions["shell"] == "" || !r.Quick || r.Seconds <= 0 {
		t.Errorf("the machine: %+v", r.Machine)
	}
	for _, tool := range []string{"bwrap", "runsc", "docker", "podman"} {
		if r.LeftOut[tool] != "not installed" {
			t.Errorf("nothing says why %s is left out: %+v", tool, r.LeftOut)
		}
	}
	if left := leftovers(t, home); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := os.Stat(filepath.Join(home, "state")); !os.IsNotExist(err) {
		t.Errorf("the user's own state directory was used: %v", err)
	}
}

func checkLatency(t *testing.T, r bench.Report) {
	t.Helper()
	var ways []string
	for _, f := range r.Latency {
		ways = append(ways, f.Variant)
		if f.Error != "" || f.Runs != 3 || f.What == "" || f.Language != "shell" {
			t.Errorf("%s: %+v", f.Variant, f)
		}
		if !slices.IsSorted([]float64{f.Min, f.P50, f.P90, f.P99}) || f.Min <= 0 {
			t.Errorf("%s: %+v", f.Variant, f.Spread)
		}
		if bare := r.Latency[0].P50; !isClose(f.Ratio, f.P50/bare) {
			t.Errorf("%s: ratio %v of %v ms and bare's %v", f.Variant, f.Ratio, f.P50, bare)
		}
	}
	if want := []string{bench.Bare, bench.FromBash, bench.Served, bench.Warm, bench.Session}; !slices.Equal(ways, want) {
		t.Errorf("ways: got %q, want %q", ways, want)
	}
}

func checkLoad(t *testing.T, r bench.Report) {
	t.Helper()
	if len(r.Load) != 2 {
		t.Fatalf("load: %+v", r.Load)
	}
	for _, f := range r.Load {
		if f.Error != "" || f.Concurrency != r.Machine.Cores || !isClose(f.PerSecond, float64(f.Runs)/0.5) {
			t.Errorf("%s: %+v", f.Variant, f)
		}
		if r.Load[0].Runs > 0 && !isClose(f.Ratio, f.PerSecond/r.Load[0].PerSecond) {
			t.Errorf("%s: ratio %v of %+v", f.Variant, f.Ratio, f)
		}
	}
}

func isClose(a, b float64) bool { return math.Abs(a-b) <= 0.0006 }

// TestBenchEnds ends a measurement at several moments, while servers start and during runs, and checks that nothing is
// left.
func TestBenchEnds(t *testing.T) {
	for _, tt := range []struct {
		signal syscall.Signal
		at     string
		code   int
	}{
		{syscall.SIGINT, "looking at what there is", 130}, {syscall.SIGTERM, "starting servers", 143},
		{syscall.SIGINT, "trying ", 130}, {syscall.SIGHUP, "one at a time: ", 129},
	} {
		home := t.TempDir()
		d := startOnTerminal(t, benchCommand(t, home, "--runs", "100000"))
		d.waitForText(0, tt.at)
		_ = d.cmd.Process.Signal(tt.signal)
		d.expectExit(tt.code)
		if left := leftovers(t, home); len(left) > 0 {
			t.Errorf("%v while %s left behind: %q", tt.signal, tt.at, left)
		}
		if left := append(commandLines(home), processesWith("TMPDIR="+home+"/tmp")...); len(left) > 0 {
			t.Errorf("%v while %s: processes are left: %q", tt.signal, tt.at, left)
		}
	}
}

// processesWith lists the processes that were started with a variable.
func processesWith(variable string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && slices.Contains(strings.Split(string(text), "\x00"), variable) {
			found = append(found, f)
		}
	}
	return found
}
