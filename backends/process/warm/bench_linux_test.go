package warm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// BenchmarkCold runs the same command bare, under bubblewrap and in a sandbox, in turn, so that a machine's
// changing speed affects all equally. It reports medians in milliseconds.
func BenchmarkCold(b *testing.B) {
	for _, c := range []struct {
		name, language string
		args           []string
	}{
		{"python", "python", []string{"python", "-I", "-S", "-c", "print(1)"}},
		{"node", "node", []string{"node", "-e", "console.log(1)"}},
		{"shell", "shell", []string{"bash", "-c", "echo 1"}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkCold(b, c.language, c.args) })
	}
}

// BenchmarkColdLargeServer is BenchmarkCold's python in a server that holds 1 GiB.
func BenchmarkColdLargeServer(b *testing.B) {
	ballast := make([]byte, 1<<30)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	benchmarkCold(b, "python", []string{"python", "-I", "-S", "-c", "print(1)"})
	if ballast[4096] != 1 {
		b.Fatal("the ballast is gone")
	}
}

func benchmarkCold(b *testing.B, language string, args []string) {
	backend := New(process.New(process.Config{StateDir: b.TempDir()}), Config{Ahead: 1})
	defer backend.Close()
	r := interpreter(b, language)
	bare := append([]string{r.Path}, args[1:]...)
	wrapped := bubblewrap(bare)
	times := map[string][]time.Duration{}
	measure := func(name string, run func() error) {
		begun := time.Now()
		if err := run(); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		times[name] = append(times[name], time.Since(begun))
	}
	sandboxed := func() error { return runSandboxed(backend, language, args) }
	if err := sandboxed(); err != nil { // starts the launcher, and finds the interpreter
		b.Fatal(err)
	}
	for b.Loop() {
		measure("bare", func() error { return command(bare).Run() })
		measure("sandbox", sandboxed)
		if wrapped != nil {
			measure("bwrap", func() error { return command(wrapped).Run() })
		}
	}
	for name, list := range times {
		b.ReportMetric(median(list), name+"-ms")
	}
	b.ReportMetric(median(times["sandbox"])-median(times["bare"]), "added-ms")
	if wrapped != nil {
		b.ReportMetric((median(times["sandbox"])-median(times["bare"]))/(median(times["bwrap"])-median(times["bare"])), "added/bwrap-added")
	}
}

// BenchmarkSustained runs the same command bare, under bubblewrap and in sandboxes, one per CPU at a time, in turn
// for a second each. It reports medians of the runs per second, and their ratios.
func BenchmarkSustained(b *testing.B) {
	for _, c := range []struct {
		name, language string
		args           []string
	}{
		{"shell", "shell", []string{"bash", "-c", ":"}},
		{"python", "python", []string{"python", "-I", "-S", "-c", "pass"}},
		{"node", "node", []string{"node", "-e", "0"}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkSustained(b, c.language, c.args) })
	}
}

func benchmarkSustained(b *testing.B, language string, args []string) {
	backend := New(process.New(process.Config{StateDir: b.TempDir()}), Config{Ahead: runtime.NumCPU()})
	defer backend.Close()
	r := interpreter(b, language)
	bare := append([]string{r.Path}, args[1:]...)
	wrapped := bubblewrap(bare)
	rates := rates{}
	for b.Loop() {
		rates.measure(b, "bare", func() error { return command(bare).Run() })
		rates.measure(b, "sandbox", func() error { return runSandboxed(backend, language, args) })
		if wrapped != nil {
			rates.measure(b, "bwrap", func() error { return command(wrapped).Run() })
		}
	}
	rates.report(b)
}

// rates are the runs in each measured second, by kind of run.
type rates map[string][]float64

func (r rates) measure(b *testing.B, name string, run func() error) {
	n, err := perSecond(run)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	r[name] = append(r[name], n)
}

// report reports medians, and those of sandboxes as fractions of the others.
func (r rates) report(b *testing.B) {
	middle := map[string]float64{}
	for name, list := range r {
		slices.Sort(list)
		middle[name] = list[len(list)/2]
		b.ReportMetric(middle[name], name+"/s")
	}
	for name, n := range middle {
		if name != "sandbox" {
			b.ReportMetric(middle["sandbox"]/n, "sandbox/"+name)
		}
	}
}

// perSecond keeps all CPUs busy with run for one second.
func perSecond(run func() error) (float64, error) {
	var n atomic.Int64
	begun := time.Now()
	errs := make([]error, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for errs[i] == nil && time.Since(begun) < time.Second {
				errs[i] = run()
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(begun).Seconds(), errors.Join(errs...)
}

func runSandboxed(backend *Backend, language string, args []string) error {
	s, err := backend.Start(context.Background(), backends.Spec{ID: "bench", Language: language, Require: backends.ContainmentLayers})
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Exec(context.Background(), backends.Command{Args: args}, backends.Streams{Stdout: io.Discard})
	return err
}

func command(args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	cmd.Stdout = io.Discard
	return cmd
}

// bubblewrap returns a command line that gives a program roughly a sandbox's environment, without Landlock,
// seccomp, limits and the check of layers; nil if it is not installed.
func bubblewrap(bare []string) []string {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil
	}
	args := []string{bwrap, "--unshare-all", "--die-with-parent", "--new-session",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--chdir", "/workspace"}
	if dir, _, ok := strings.Cut(bare[0], "/bin/"); ok && dir != "/usr" && dir != "" {
		args = append(args, "--ro-bind", dir, dir)
	}
	return append(append(args, "--"), bare...)
}

func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2]) / float64(time.Millisecond)
}

// BenchmarkWarm runs the same command bare and, as a file, in an idle sandbox, in turn, and waits in between for
// the next idle sandbox. It reports the medians from Start to the end of Exec, and their ratio.
func BenchmarkWarm(b *testing.B) {
	for _, c := range []struct {
		name, language string
		bare           []string
		cmd            backends.Command
		text           string
	}{
		{"python", "python", []string{"-I", "-S", "-c", "print(1)"}, backends.Command{Args: []string{"python", "main.py"}}, "print(1)"},
		{"node", "node", []string{"-e", "console.log(1)"}, backends.Command{Args: []string{"node", "main.js"}}, "console.log(1)"},
		{"shell", "shell", []string{"-c", "echo 1"}, backends.Command{Args: []string{"bash", "main.sh"}}, "echo 1"},
	} {
		b.Run(c.name, func(b *testing.B) {
			backend := newBackend(b, process.Config{}, Config{Max: 4})
			r := interpreter(b, c.language)
			spec := announced(c.language, c.cmd)
			times := map[string][]time.Duration{}
			for b.Loop() {
				begun := time.Now()
				if err := command(append([]string{r.Path}, c.bare...)).Run(); err != nil {
					b.Fatal(err)
				}
				times["bare"] = append(times["bare"], time.Since(begun))
				makeReady(b, backend, spec)
				begun = time.Now()
				s, err := backend.Start(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				started := time.Now()
				err = s.Files().Put(c.cmd.Args[1], 0o644, strings.NewReader(c.text))
				result, execErr := s.Exec(b.Context(), c.cmd, backends.Streams{Stdout: io.Discard})
				times["warm"] = append(times["warm"], time.Since(begun))
				times["start"] = append(times["start"], started.Sub(begun))
				begun = time.Now()
				s.Close()
				times["close"] = append(times["close"], time.Since(begun))
				if err != nil || execErr != nil || !result.Warm || result.Ended != backends.EndedOK {
					b.Fatalf("%+v %v %v", result, err, execErr)
				}
			}
			for name, list := range times {
				b.ReportMetric(median(list), name+"-ms")
			}
			b.ReportMetric(median(times["warm"])/median(times["bare"]), "warm/bare")
		})
	}
}

// BenchmarkSustainedAnnounced runs a Python bare and in sandboxes with an announced program, one per CPU at a time,
// in turn for a second each: faster than a pool can be refilled.
func BenchmarkSustainedAnnounced(b *testing.B) {
	backend := newBackend(b, process.Config{}, Config{Max: 4})
	cmd := backends.Command{Args: []string{"python", "main.py"}}
	spec := announced("python", cmd)
	spec.Require = backends.ContainmentLayers
	r := interpreter(b, "python")
	makeReady(b, backend, spec)
	rates := rates{}
	for b.Loop() {
		rates.measure(b, "bare", func() error { return command([]string{r.Path, "-I", "-S", "-c", "print(1)"}).Run() })
		rates.measure(b, "sandbox", func() error {
			s, err := backend.Start(b.Context(), spec)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.Files().Put("main.py", 0o644, strings.NewReader("print(1)")); err != nil {
				return err
			}
			r, err := s.Exec(b.Context(), cmd, backends.Streams{Stdout: io.Discard})
			if err == nil && r.Ended != backends.EndedOK {
				err = fmt.Errorf("ended %s", r.Ended)
			}
			return err
		})
	}
	rates.report(b)
}
