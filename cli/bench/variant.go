package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Way is one manner of running a small program, which prints 1.
type Variant struct {
	Language, Name string
	What           string // that is run, for people
	Seldom         bool   // it takes long
	Loaded         bool   // it is also measured with all cores busy
	Once           func(context.Context) (Answer, error)
	Broken         error // why it is not run, or not any more

	pooled bool // its runs are to find what is made ready between them
	silent bool // it prints nothing
}

// Answer is what a run gave.
type Answer struct {
	Out   string
	ready bool   // it found a sandbox ready,
	cold  string // or why not
}

// sample is one run that counts.
type sample struct {
	Answer
	took time.Duration
}

// runTimeout is how long one run may take that takes milliseconds.
const runTimeout = 30 * time.Second

// run runs the program and says how long that took. What did not print what it should is no run.
func (w *Variant) run(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	begun := time.Now()
	answer, err := w.Once(ctx)
	took := time.Since(begun)
	if err == nil && !w.silent && strings.TrimSpace(answer.Out) != "1" {
		err = fmt.Errorf("it printed %.40q instead of 1", answer.Out)
	}
	return sample{answer, took}, err
}

// try is run for a way that is not broken, which it is from its first error on.
func (w *Variant) try(ctx context.Context) (sample, bool) {
	if w.Broken != nil || ctx.Err() != nil {
		return sample{}, false
	}
	one, err := w.run(ctx)
	if ctx.Err() != nil { // whatever it says, that is why
		return sample{}, false
	}
	w.Broken = err
	return one, err == nil
}

// series is a series of runs.
func (w *Variant) series(ctx context.Context, runs int) (taken []sample) {
	if w.Seldom {
		runs = 1
	}
	for range runs {
		one, ok := w.try(ctx)
		if !ok {
			break
		}
		taken = append(taken, one)
		if w.pooled {
			pause(ctx, settle)
		}
	}
	if w.Broken == nil {
		pause(ctx, settle)
	}
	return taken
}

// ready counts who found a sandbox ready; nil where none is kept.
func (w *Variant) ready(taken []sample) *Ready {
	if !w.pooled {
		return nil
	}
	r := &Ready{Runs: len(taken), Cold: map[string]int{}}
	for _, one := range taken {
		if one.ready {
			r.Found++
		} else {
			r.Cold[one.cold]++
		}
	}
	return r
}

func (w *Variant) why() string {
	if w.Broken == nil {
		return ""
	}
	return OneLine(w.Broken.Error())
}

// OneLine returns the first line that says something, short enough for a report.
func OneLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return Shorten(line, 300)
		}
	}
	return "no reason was given"
}
