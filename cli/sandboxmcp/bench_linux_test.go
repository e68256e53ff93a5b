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

// benchCommand is a command line of bench for which only bash is installed, beside ourselves.
func benchCommand(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	need(t, "sandbox", "bash")
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

// TestBench measures for real, and reads what is reported.
func TestBench(t *testing.T) {
	home := t.TempDir()
	drawn := filepath.Join(home, "new.svg")
	cmd := benchCommand(t, home, "--runs", "3", "--json", "--svg", drawn)
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
	checkRows(t, r)
	for _, tool := range []string{"bubblewrap", "runsc", "docker", "podman"} {
		if !slices.Contains(r.LeftOut, bench.LeftOut{What: tool, Why: "not installed"}) {
			t.Errorf("nothing says why %s is left out: %+v", tool, r.LeftOut)
		}
	}
	if svg, err := os.ReadFile(drawn); err != nil || !bytes.HasPrefix(svg, []byte("<svg ")) || !bytes.HasSuffix(svg, []byte("</svg>\n")) {
		t.Errorf("it drew %.100s, %v", svg, err)
	}
	if left := leftovers(t, home); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := os.Stat(filepath.Join(home, "state")); !os.IsNotExist(err) {
		t.Errorf("the user's own state directory was used: %v", err)
	}
}

// checkRows looks for what has a target and needs no other tool.
func checkRows(t *testing.T, r bench.Report) {
	t.Helper()
	rows := map[string]bench.Row{}
	for _, row := range r.Rows {
		if rows[row.What] = row; row.Measured <= 0 {
			t.Errorf("%+v", row)
		}
	}
	for what, target := range map[string]float64{
		"execute_code, shell: time x bare": 1, "cell of a session, shell: time x bare bash": 0.2, "sandboxmcp version: time x the least Go program": 2,
		"server, idle: RSS in MB": 40, "server, after the load: RSS in MB": 0,
	} {
		if row, ok := rows[what]; !ok || row.Target != target {
			t.Errorf("%s: got %+v, want a target of %v; all: %+v", what, row, target, r.Rows)
		}
	}
	_, measured := rows["server's CPU time for a shell run x bare bash's"]
	if why := slices.IndexFunc(r.LeftOut, func(l bench.LeftOut) bool { return l.What == "CPU time of the server" }); measured == (why >= 0) {
		t.Errorf("the server's CPU time: measured %v, left out %v", measured, r.LeftOut)
	}
	for _, l := range r.Latency {
		if (l.Variant == bench.Warm) != (l.Ready != nil) || l.Ready != nil && (l.Ready.Runs != l.Runs || l.Ready.Found > l.Runs) {
			t.Errorf("%s: %+v found a sandbox ready", l.Variant, l.Ready)
		}
	}
}

func checkLatency(t *testing.T, r bench.Report) {
	t.Helper()
	var ways []string
	for _, l := range r.Latency {
		ways = append(ways, l.Variant)
		if l.Error != "" || l.Runs != 3 || l.What == "" || l.Language != "shell" && l.Language != bench.Start {
			t.Errorf("%s: %+v", l.Variant, l)
		}
		if !slices.IsSorted([]float64{l.Min, l.P10, l.P50, l.P90, l.P99, l.Max}) || l.Min <= 0 {
			t.Errorf("%s: %+v", l.Variant, l.Spread)
		}
		bare := r.Latency[0].P50
		if l.Language == bench.Start {
			bare = r.Latency[len(r.Latency)-2].P50
		}
		if near(l.Ratio, l.P50/bare) && near(l.Added, l.P50-bare) {
			continue
		}
		t.Errorf("%s: ratio %v and %v more, of %v ms and bare's %v", l.Variant, l.Ratio, l.Added, l.P50, bare)
	}
	if want := []string{bench.Bare, bench.Warm, bench.PoolOff, bench.Session, bench.Cold, bench.FromBash, bench.Served, bench.Bare, bench.Version}; !slices.Equal(ways, want) {
		t.Errorf("ways: got %q, want %q", ways, want)
	}
}

func checkLoad(t *testing.T, r bench.Report) {
	t.Helper()
	if len(r.Load) != 2 {
		t.Fatalf("load: %+v", r.Load)
	}
	for _, l := range r.Load {
		if l.Error != "" || l.Concurrency != r.Machine.Cores || !near(l.PerSecond, float64(l.Runs)/l.Seconds) {
			t.Errorf("%s: %+v", l.Variant, l)
		}
		if l.Runs == 0 || r.Load[0].Runs == 0 { // a slow machine
			continue
		}
		if !near(l.Ratio, l.PerSecond/r.Load[0].PerSecond) || !near(l.Tail, l.P99/l.P50) {
			t.Errorf("%s: ratios %v and %v of %+v", l.Variant, l.Ratio, l.Tail, l)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 0.0006 }

// TestBenchEnds ends a measurement at several moments: while servers start, while one runs at a time. Nothing of it is left.
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
		d := sit(t, benchCommand(t, home, "--runs", "100000", "--svg", filepath.Join(home, "plot.svg")))
		d.sees(0, tt.at)
		_ = d.cmd.Process.Signal(tt.signal)
		d.leaves(tt.code)
		if left := leftovers(t, home); len(left) > 0 {
			t.Errorf("%v while %s left behind: %q", tt.signal, tt.at, left)
		}
		if left := append(commandLines(home), having("TMPDIR="+home+"/tmp")...); len(left) > 0 {
			t.Errorf("%v while %s: processes are left: %q", tt.signal, tt.at, left)
		}
	}
}

// having lists the processes that were started with a variable.
func having(variable string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && slices.Contains(strings.Split(string(text), "\x00"), variable) {
			found = append(found, f)
		}
	}
	return found
}
