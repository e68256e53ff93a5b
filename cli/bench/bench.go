// Package bench measures what isolation costs on this machine: the same small programs bare, in what else isolates
// programs here, and in our own sandboxes, seen from outside as a client or a shell sees them.
//
// All are run in turn, in an order that changes from round to round, so that a machine whose speed drifts is the same
// for all of them. What counts are the ratios to the bare command of the same report: absolute figures are this
// machine's, at this hour.
//
// Order of the files: bench, ways, server, report.
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

// Config selects what is measured, and how thoroughly.
type Config struct {
	Program   string                       // path of sandboxmcp, which is started as a server and as a command
	Version   string                       // of it, for the report
	Environ   []string                     // of the caller, for the programs that need a home or an engine's address
	Image     func(language string) string // of containers; one that an engine does not have is left out, never fetched
	Languages []string                     // of those that [Languages] returns; nil is all
	Runs      int                          // of each way; what takes long has a fifth of them
	Quick     bool                         // shorter stretches under load
	Progress  func(text string)            // told what is done just now; nil is nobody
}

// Languages returns those that can be measured.
func Languages() []string { return []string{"python", "node", "shell"} }

// bench is one measurement.
type bench struct {
	Config
	dir     string // for all that the measured programs keep
	report  Report
	ways    []*way
	closers []func()
}

// Run measures. What this machine lacks, and what breaks, is part of the report; an error means that there is none,
// because ctx ended or there is no room for temporary files. When it returns, all processes that it
// started have ended and its files are gone.
func Run(ctx context.Context, c Config) (r Report, err error) {
	if c.Languages == nil {
		c.Languages = Languages()
	}
	begun := time.Now()
	b := &bench{Config: c, report: Report{Began: begun.UTC().Truncate(time.Second), Quick: c.Quick, Latency: []Figures{}, Load: []Figures{}, LeftOut: map[string]string{}}}
	if b.dir, err = os.MkdirTemp("", "sandboxmcp-bench-"); err != nil {
		return Report{}, fmt.Errorf("make a directory for the state of what is measured: %w", err)
	}
	defer os.RemoveAll(b.dir)
	defer func() {
		for _, end := range b.closers {
			end()
		}
	}()
	b.say(ctx, "looking at what there is")
	b.report.Machine = describeMachine()
	b.report.Machine.Versions["sandboxmcp"] = c.Version
	if err := os.WriteFile(b.settings(), []byte(settings), 0o600); err != nil {
		return Report{}, err
	}
	b.findWays(ctx)
	b.rounds(ctx)
	b.loads(ctx)
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	b.report.Seconds = round(time.Since(begun).Seconds())
	b.report.compare()
	return b.report, nil
}

// settings are all that is not as by default. They are the same for servers and for run, which has its server only do
// what it would have done itself.
const settings = "containers: {pull: never}\n"

// settings is the file that keeps the user's own settings out.
func (b *bench) settings() string { return filepath.Join(b.dir, "default.yaml") }

// say reports progress, until ctx ends.
func (b *bench) say(ctx context.Context, format string, args ...any) {
	if b.Progress != nil && ctx.Err() == nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

func (b *bench) leaveOut(what string, why error) { b.report.LeftOut[what] = lastLine(why.Error()) }

// settle is how long nothing runs after each turn, and between runs that are to find what is kept ready: what a run
// left to be done behind its result, such as taking its sandbox down or making the next one ready, is not to slow down
// another.
const settle = 50 * time.Millisecond

// series is how many runs of one way follow each other in its turn. What takes long has one.
const series = 5

// rounds measures all ways one run at a time, after a few runs that do not count: interpreters are read from disk,
// servers see what they are asked for.
func (b *bench) rounds(ctx context.Context) {
	for i := range 3 {
		for _, w := range b.ways {
			if i == 0 || !w.seldom {
				b.say(ctx, "%s: trying %s", w.language, w.name)
				w.series(ctx, 1)
			}
		}
	}
	taken := make([][]time.Duration, len(b.ways))
	for done := 0; done < b.Runs; done += series {
		b.say(ctx, "one at a time: %d of %d runs of each", done, b.Runs)
		for _, i := range rand.Perm(len(b.ways)) {
			taken[i] = append(taken[i], b.ways[i].series(ctx, min(series, b.Runs-done))...)
		}
	}
	for i, w := range b.ways {
		b.report.Latency = append(b.report.Latency, w.figures(taken[i]))
	}
}

// loads measures ways with as many callers as there are cores, each of which begins the next run when the last has
// ended. None is measured in one go: a machine that drifts is to be the same for all.
func (b *bench) loads(ctx context.Context) {
	times, lead, each := 3, 500*time.Millisecond, time.Second // what stood ready is used up in the lead, which does not count
	if b.Quick {
		times, lead, each = 1, 300*time.Millisecond, 500*time.Millisecond
	}
	taken := make([][]time.Duration, len(b.ways))
	for n := range times {
		for _, i := range rand.Perm(len(b.ways)) {
			if w := b.ways[i]; w.loaded && w.broken == nil {
				b.say(ctx, "%s: %s with all cores busy, %d of %d", w.language, w.name, n+1, times)
				taken[i] = append(taken[i], w.load(ctx, lead, each)...)
				pause(ctx, 4*settle)
			}
		}
	}
	for i, w := range b.ways {
		if w.loaded {
			l := w.figures(taken[i])
			l.Concurrency, l.PerSecond = runtime.NumCPU(), round(float64(l.Runs)/(time.Duration(times)*each).Seconds())
			b.report.Load = append(b.report.Load, l)
		}
	}
}

// load returns those runs that ended within one stretch.
func (w *way) load(ctx context.Context, lead, each time.Duration) (taken []time.Duration) {
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

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// way is one manner of running a small program, which prints 1.
type way struct {
	language, name string
	what           string // that is run, for people
	seldom         bool   // it takes long
	loaded         bool   // it is also measured with all cores busy
	pooled         bool   // its runs are to find what is made ready between them
	silent         bool   // it prints nothing
	once           func(context.Context) (printed string, err error)
	broken         error // why it is not run, or not any more
}

// runTimeout is how long one run may take that takes milliseconds.
const runTimeout = 30 * time.Second

// run runs the program and says how long that took. What did not print what it should is no run.
func (w *way) run(ctx context.Context) (took time.Duration, err error) {
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

// series is a series of runs, up to the first that fails: the way is broken then.
func (w *way) series(ctx context.Context, runs int) (taken []time.Duration) {
	if w.seldom {
		runs = 1
	}
	for range runs {
		if w.broken != nil || ctx.Err() != nil {
			return taken
		}
		took, err := w.run(ctx)
		if ctx.Err() != nil { // whatever the error is, that is why
			return taken
		}
		if w.broken = err; err != nil {
			return taken
		}
		taken = append(taken, took)
		if w.pooled {
			pause(ctx, settle)
		}
	}
	pause(ctx, settle)
	return taken
}

// figures returns what is reported of runs that took so long.
func (w *way) figures(taken []time.Duration) Figures {
	f := Figures{Language: w.language, Variant: w.name, What: w.what, Spread: spread(taken)}
	if w.broken != nil {
		f.Error = lastLine(w.broken.Error())
	}
	return f
}

// cleanEnviron returns the environment of bare commands: Node, for one, starts otherwise with other variables.
func cleanEnviron() []string { return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"} }

// grace is how long a command may take to end once nobody waits for its result. It is let alone meanwhile: what runs
// for milliseconds ends sooner than it can be told to, and puts its things in order.
const grace = 2 * time.Second

// output runs a command and returns what it wrote to standard output. What it wrote to standard error becomes the error
// if it fails.
func output(ctx context.Context, environ []string, words ...string) (string, error) {
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &out, &stderr
	cmd.Cancel = func() error { return nil }
	cmd.WaitDelay = grace
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

// lastLine returns the last line of a text, where most programs say why they failed, short enough for a report.
func lastLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\nsandboxmcp: hint: ")
	line := []rune(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
	return string(line[:min(len(line), 300)])
}
