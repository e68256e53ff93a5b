package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A way is one manner of running a small program, which prints 1.
type way struct {
	language, name string
	what           string // that is run, for people
	seldom         bool   // it takes long
	spaced         bool   // its runs are to find what is made ready between them
	loaded         bool   // it is also measured with all cores busy
	once           func(ctx context.Context) (out string, err error)
	silent         bool // it prints nothing

	broken error // why it is not run any more
}

// patience is how long one run may take that takes milliseconds.
const patience = 30 * time.Second

// run runs the program and says how long that took. What did not print what it should is no run.
func (w *way) run(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := time.Now()
	out, err := w.once(ctx)
	took := time.Since(begun)
	if err == nil && !w.silent && strings.TrimSpace(out) != "1" {
		err = fmt.Errorf("it printed %.40q instead of 1", out)
	}
	return took, err
}

// try is run for a way that is not broken, which it is from its first error on.
func (w *way) try(ctx context.Context) (time.Duration, bool) {
	if w.broken != nil || ctx.Err() != nil {
		return 0, false
	}
	took, err := w.run(ctx)
	if ctx.Err() != nil { // whatever it says, that is why
		return 0, false
	}
	w.broken = err
	return took, err == nil
}

// turn is a series of runs.
func (w *way) turn(ctx context.Context, runs int) (taken []time.Duration) {
	if w.seldom {
		runs = 1
	}
	for range runs {
		took, ok := w.try(ctx)
		if !ok {
			break
		}
		taken = append(taken, took)
		if w.spaced {
			pause(ctx, settle)
		}
	}
	if w.broken == nil {
		pause(ctx, settle)
	}
	return taken
}

func (w *way) why() string {
	if w.broken == nil {
		return ""
	}
	return oneLine(w.broken.Error())
}

// oneLine returns the first line that says something, short enough for a report.
func oneLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			if r := []rune(line); len(r) > 300 {
				line = string(r[:299]) + "…"
			}
			return line
		}
	}
	return "no reason was given"
}
