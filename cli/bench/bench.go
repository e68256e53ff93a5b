// Package bench measures the cost of isolation on this machine: the same small programs run bare, under other isolation
// tools, and in our own sandboxes, timed from outside as a client or a shell sees them.
//
// Runs of all methods alternate, in an order that changes from round to round, so that a machine whose speed drifts
// affects all alike. Compare the ratios to the bare command of the same report: absolute figures hold only for this
// machine at this hour.
//
// Order of the files: bench, methods, server, report.
package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Config selects the methods, languages and number of runs.
type Config struct {
	Program   string                       // path of sandboxmcp, started both as a server and as a command
	Version   string                       // of Program, for the report
	Environ   []string                     // of the caller, for programs that need a home or an engine's address
	Image     func(language string) string // image of containers; images are never pulled, a missing one is left out
	Languages []string                     // subset of [Languages]; nil means all
	Runs      int                          // of each method; slow methods have a fifth of them
	Quick     bool                         // measure load for shorter periods
	Progress  func(text string)            // receives the current step; may be nil
}

// Languages returns the languages that can be measured.
func Languages() []string { return []string{"python", "node", "shell"} }

// bench is one measurement.
type bench struct {
	Config
	dir     string // holds all files of the measured programs
	report  Report
	methods []*method
	closers []func()
}

// Run measures. Missing tools and failures are part of the report; an error means that there is no report, because ctx
// ended or there is no room for temporary files. When Run returns, all its processes have ended and its files are gone.
func Run(ctx context.Context, c Config) (r Report, err error) {
	if c.Languages == nil {
		c.Languages = Languages()
	}
	begun := time.Now()
	b := &bench{Config: c, report: Report{Began: begun.UTC().Truncate(time.Second), Quick: c.Quick, Latency: []Figures{}, Load: []Figures{},
		LeftOut: map[string]string{}}}
	if b.dir, err = os.MkdirTemp("", "sandboxmcp-bench-"); err != nil {
		return Report{}, fmt.Errorf("make a directory for the measurement: %w", err)
	}
	defer os.RemoveAll(b.dir)
	defer func() {
		for _, end := range b.closers {
			end()
		}
	}()
	b.reportProgress(ctx, "looking at what there is")
	b.report.Machine = describeMachine()
	b.report.Machine.Versions["sandboxmcp"] = c.Version
	if err := os.WriteFile(b.settingsFile(), []byte(settingsYAML), 0o600); err != nil {
		return Report{}, err
	}
	b.findMethods(ctx)
	b.measureLatency(ctx)
	b.measureLoad(ctx)
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	b.report.Seconds = roundToThousandths(time.Since(begun).Seconds())
	b.report.computeRatios()
	return b.report, nil
}

// settingsYAML differ from the defaults. Servers and run share them: run hands over to its server only if both have the
// same settings.
const settingsYAML = "containers: {pull: never}\n"

// settingsFile returns the path of a file that replaces the user's own settings.
func (b *bench) settingsFile() string { return filepath.Join(b.dir, "default.yaml") }

// reportProgress reports progress until ctx ends.
func (b *bench) reportProgress(ctx context.Context, format string, args ...any) {
	if b.Progress != nil && ctx.Err() == nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

func (b *bench) leaveOut(what string, why error) { b.report.LeftOut[what] = lastLine(why.Error()) }

// settleTime is the pause after each series, and between runs of pooled methods. Work that a run leaves behind its result,
// such as removing its sandbox or refilling the pool, must not slow down the next one.
const settleTime = 50 * time.Millisecond

// runsPerSeries is the number of consecutive runs of one method in a round. Slow methods have one.
const runsPerSeries = 5

// measureLatency measures all methods one run at a time, after some warm-up runs: interpreters are read from disk, and servers
// learn which pools they need.
func (b *bench) measureLatency(ctx context.Context) {
	for i := range 3 {
		for _, w := range b.methods {
			if i == 0 || !w.seldom {
				b.reportProgress(ctx, "%s: trying %s", w.language, w.name)
				w.runSeries(ctx, 1)
			}
		}
	}
	taken := make([][]time.Duration, len(b.methods))
	for done := 0; done < b.Runs; done += runsPerSeries {
		b.reportProgress(ctx, "one at a time: %d of %d runs of each", done, b.Runs)
		for _, i := range rand.Perm(len(b.methods)) {
			taken[i] = append(taken[i], b.methods[i].runSeries(ctx, min(runsPerSeries, b.Runs-done))...)
		}
	}
	for i, w := range b.methods {
		b.report.Latency = append(b.report.Latency, w.summarize(taken[i]))
	}
}

// measureLoad measures methods with as many callers as there are cores; each starts its next run when the last has ended. The
// methods alternate, so that a machine whose speed drifts affects all alike.
func (b *bench) measureLoad(ctx context.Context) {
	times, lead, each := 3, 500*time.Millisecond, time.Second // the lead uses up the pool and does not count
	if b.Quick {
		times, lead, each = 1, 300*time.Millisecond, 500*time.Millisecond
	}
	taken := make([][]time.Duration, len(b.methods))
	for n := range times {
		for _, i := range rand.Perm(len(b.methods)) {
			if w := b.methods[i]; w.loaded && w.broken == nil {
				b.reportProgress(ctx, "%s: %s with all cores busy, %d of %d", w.language, w.name, n+1, times)
				taken[i] = append(taken[i], w.runFor(ctx, lead, each)...)
				sleep(ctx, 4*settleTime)
			}
		}
	}
	for i, w := range b.methods {
		if w.loaded {
			l := w.summarize(taken[i])
			l.Concurrency, l.PerSecond = runtime.NumCPU(), roundToThousandths(float64(l.Runs)/(time.Duration(times)*each).Seconds())
			b.report.Load = append(b.report.Load, l)
		}
	}
}

// runFor returns the durations of the runs that ended within one period.
func (w *method) runFor(ctx context.Context, lead, each time.Duration) (taken []time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	from := time.Now().Add(lead)
	until := from.Add(each)
	for range runtime.NumCPU() {
		all.Go(func() {
			for broken := false; !broken && time.Now().Before(until) && ctx.Err() == nil; {
				one, err := w.run(ctx)
				end := time.Now()
				mu.Lock()
				switch {
				case err != nil && ctx.Err() == nil && w.broken == nil:
					w.broken = err
				case err == nil && !end.Before(from) && end.Before(until):
					taken = append(taken, one)
				}
				broken = w.broken != nil
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return taken
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// method is one way of running a small program that prints 1.
type method struct {
	language, name string
	what           string // command line, for people
	seldom         bool   // slow: fewer runs
	loaded         bool   // also measured with all cores busy
	pooled         bool   // pause between runs, so that the pool is full
	silent         bool   // prints nothing
	once           func(context.Context) (printed string, err error)
	broken         error // reason for which it is no longer run
}

// runTimeout bounds one run, which normally takes milliseconds.
const runTimeout = 30 * time.Second

// run runs the program and returns its duration. Unexpected output is an error.
func (w *method) run(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	begun := time.Now()
	printed, err := w.once(ctx)
	took = time.Since(begun)
	if err == nil && !w.silent && strings.TrimSpace(printed) != "1" {
		err = fmt.Errorf("it printed %.40q instead of 1", printed)
	}
	return took, err
}

// runSeries does a series of runs. The first failure marks the method as broken and ends it.
func (w *method) runSeries(ctx context.Context, runs int) (taken []time.Duration) {
	if w.seldom {
		runs = 1
	}
	for range runs {
		if w.broken != nil || ctx.Err() != nil {
			return taken
		}
		took, err := w.run(ctx)
		if ctx.Err() != nil { // then the error is only a consequence
			return taken
		}
		if w.broken = err; err != nil {
			return taken
		}
		taken = append(taken, took)
		if w.pooled {
			sleep(ctx, settleTime)
		}
	}
	sleep(ctx, settleTime)
	return taken
}

// summarize returns the statistics of runs with these durations.
func (w *method) summarize(taken []time.Duration) Figures {
	f := Figures{Language: w.language, Variant: w.name, What: w.what, Spread: newSpread(taken)}
	if w.broken != nil {
		f.Error = lastLine(w.broken.Error())
	}
	return f
}

// cleanEnviron returns the environment of bare commands: some variables change how Node starts, for one.
func cleanEnviron() []string { return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"} }

// exitGrace bounds the wait for a command whose result is not needed any more. It is not signalled meanwhile: a run of
// milliseconds ends sooner than a signal arrives, and cleans up.
const exitGrace = 2 * time.Second

// runOutput runs a command and returns its standard output. If it fails, its standard error is in the error.
func runOutput(ctx context.Context, environ []string, words ...string) (string, error) {
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &out, &stderr
	cmd.Cancel = func() error { return nil }
	cmd.WaitDelay = exitGrace
	err, name := cmd.Run(), filepath.Base(cmd.Path)
	switch {
	case err == nil:
		return out.String(), nil
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("%s did not end in time", name)
	case stderr.Len() > 0:
		return "", fmt.Errorf("%s: %s", name, lastLine(stderr.String()))
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

// lastLine returns the last line of a text, where most programs report their error, cut for a report.
func lastLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\nsandboxmcp: hint: ")
	line := []rune(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
	return string(line[:min(len(line), 300)])
}
