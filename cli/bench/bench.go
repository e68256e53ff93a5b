// Package bench measures what isolation costs on this machine: the same small programs bare, in what else isolates
// programs here, and in our own sandboxes, seen from outside as a client or a shell sees them.
//
// All are run in turn, in an order that changes from round to round, so that a machine whose speed drifts is the same
// for all of them. What counts are the ratios to the bare command of the same report: absolute figures are this
// machine's, at this hour.
//
// Package peers knows the others, and package plot draws: both import this one, and cli puts them together.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// Config selects what is measured, and how thoroughly.
type Config struct {
	Program string   // path of sandboxmcp, which is started as a server and as a command
	Version string   // of it, for the report
	Environ []string // of the caller, for the programs that need a home or an engine's address

	// Peers finds what else isolates programs here. nil is nothing.
	Peers func(ctx context.Context, programs []*Program) Peers

	Languages []string // of those that [Languages] returns; nil is all
	Runs      int      // of each way; what takes long has a fifth of them
	Quick     bool     // shorter stretches under load

	Progress func(text string) // told what is done just now; nil is nobody
}

// Peers are other ways to run programs isolated.
type Peers struct {
	Variants []*Variant
	Images   []Image           // that an engine has, in whose containers our own runs are measured, too
	Versions map[string]string // of tools, by name
	LeftOut  []LeftOut
	Close    func() // ends what they keep; nil is nothing
}

// Image is a container image with a program's interpreter.
type Image struct {
	Engine  string // "docker" or "podman"
	Program *Program
	Name    string
}

// Languages returns those that can be measured.
func Languages() []string { return []string{"python", "node", "shell"} }

// Run measures. What this machine lacks, and what breaks, is part of the report; an error means that there is none,
// because ctx ended or there is no room for temporary files. When it returns, all processes that it
// started have ended and its files are gone.
func Run(ctx context.Context, c Config) (r Report, err error) {
	if c.Languages == nil {
		c.Languages = Languages()
	}
	b := &bench{Config: c, report: Report{Began: time.Now().UTC().Truncate(time.Second), Quick: c.Quick, Rows: []Row{}, Latency: []Latency{}, Load: []Load{}, LeftOut: []LeftOut{}}}
	if b.dir, err = os.MkdirTemp("", "sandboxmcp-bench-"); err != nil {
		return Report{}, fmt.Errorf("make a directory for the state of what is measured: %w", err)
	}
	defer os.RemoveAll(b.dir)
	defer b.close()
	begun := time.Now()
	b.prepare(ctx)
	b.warmUp(ctx)
	b.rounds(ctx)
	b.idleMemory(ctx)
	b.loads(ctx)
	b.loadedMemory(ctx)
	b.processor(ctx)
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	b.report.Seconds = round(time.Since(begun).Seconds())
	b.report.compare(b.used)
	return b.report, nil
}

// bench is one measurement.
type bench struct {
	Config
	dir      string // for all that the measured programs keep
	report   Report
	used     used
	programs []*Program
	variants []*Variant
	warm     *server // of those, the one with default settings; nil is none
	servers  []*server
	closers  []func()
}

func (b *bench) close() {
	for _, s := range b.servers {
		s.close()
	}
	for _, end := range b.closers {
		end()
	}
}

// prepare finds out what there is to measure, and starts what must stand ready.
func (b *bench) prepare(ctx context.Context) {
	b.say(ctx, "looking at what there is")
	b.report.Machine = machine(ctx)
	versions := b.report.Machine.Versions
	versions["sandboxmcp"] = b.Version
	for _, language := range b.Languages {
		p, err := find(ctx, language, b.dir)
		if err != nil {
			b.leaveOut(language, err)
			continue
		}
		versions[language] = p.version
		b.programs = append(b.programs, p)
		b.variants = append(b.variants, &Variant{Language: language, Name: Bare, What: p.What + ": " + p.Code, Loaded: true, Once: Runs(Clean(), p.Bare()...)})
	}
	var others Peers
	if b.Peers != nil {
		others = b.Peers(ctx, b.programs)
	}
	for name, version := range others.Versions {
		versions[name] = version
	}
	if others.Close != nil {
		b.closers = append(b.closers, others.Close)
	}
	b.variants = append(b.variants, others.Variants...)
	b.report.LeftOut = append(b.report.LeftOut, others.LeftOut...)
	b.ours(ctx)
	b.contained(others.Images)
	b.starts(ctx)
}

// say reports progress, until ctx ends.
func (b *bench) say(ctx context.Context, format string, args ...any) {
	if b.Progress != nil && ctx.Err() == nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

func (b *bench) leaveOut(what string, why error) {
	b.report.LeftOut = append(b.report.LeftOut, LeftOut{What: what, Why: OneLine(why.Error())})
}

// settle is how long nothing runs after each turn, and between runs that are to find what is kept ready: what a run left to
// be done behind its result, such as taking its sandbox down or making the next one ready, is not to slow down another.
const settle = 50 * time.Millisecond

// warmUp runs all ways a few times without looking at the time: interpreters are read from disk, servers see
// what they are asked for.
func (b *bench) warmUp(ctx context.Context) {
	for i := range 3 {
		for _, w := range b.variants {
			if i > 0 && w.Seldom {
				continue
			}
			b.say(ctx, "%s: trying %s", w.Language, w.Name)
			w.try(ctx)
			pause(ctx, settle)
		}
	}
}

// series is how many runs of one way follow each other in its turn. What takes long has one.
const series = 5

func (b *bench) rounds(ctx context.Context) {
	taken := make([][]sample, len(b.variants))
	for done := 0; done < b.Runs; done += series {
		b.say(ctx, "one at a time: %d of %d runs of each", done, b.Runs)
		for _, i := range rand.Perm(len(b.variants)) {
			taken[i] = append(taken[i], b.variants[i].series(ctx, min(series, b.Runs-done))...)
		}
	}
	for i, w := range b.variants {
		b.report.Latency = append(b.report.Latency, Latency{
			Language: w.Language, Variant: w.Name, What: w.What, Spread: spread(taken[i]), Ready: w.ready(taken[i]), Error: w.why()})
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
