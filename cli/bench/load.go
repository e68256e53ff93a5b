package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// stretches is how long ways are measured with all cores busy. None is measured in one go: a machine that drifts is to
// be the same for all.
type stretches struct {
	times int
	lead  time.Duration // that does not count, after which what stood ready is used up
	each  time.Duration
}

func (b *bench) stretches() stretches {
	if b.Quick {
		return stretches{1, 300 * time.Millisecond, 500 * time.Millisecond}
	}
	return stretches{3, 500 * time.Millisecond, time.Second}
}

// loads measures ways with as many callers as there are cores, each of which begins the next run when the last has ended.
func (b *bench) loads(ctx context.Context) {
	var variants []*Variant
	for _, w := range b.variants {
		if w.Loaded && w.Broken == nil {
			variants = append(variants, w)
		}
	}
	s := b.stretches()
	cores := runtime.NumCPU()
	taken := make([][]sample, len(variants))
	for n := range s.times {
		for _, i := range rand.Perm(len(variants)) {
			w := variants[i]
			b.say(ctx, "%s: %s with all cores busy, %d of %d", w.Language, w.Name, n+1, s.times)
			taken[i] = append(taken[i], w.load(ctx, cores, s)...)
			pause(ctx, 4*settle)
		}
	}
	for i, w := range variants {
		l := Load{
			Language: w.Language, Variant: w.Name, Concurrency: cores, Seconds: (time.Duration(s.times) * s.each).Seconds(),
			Spread: spread(taken[i]), Ready: w.ready(taken[i]), Error: w.why()}
		l.PerSecond = round(float64(l.Runs) / l.Seconds)
		b.report.Load = append(b.report.Load, l)
	}
}

// load returns those runs that ended within one stretch.
func (w *Variant) load(ctx context.Context, callers int, s stretches) (taken []sample) {
	var mu sync.Mutex
	var all sync.WaitGroup
	from := time.Now().Add(s.lead)
	until := from.Add(s.each)
	for range callers {
		all.Go(func() {
			for time.Now().Before(until) && ctx.Err() == nil {
				one, err := w.run(ctx)
				end := time.Now()
				mu.Lock()
				switch {
				case err != nil && ctx.Err() == nil && w.Broken == nil:
					w.Broken = err
				case err == nil && !end.Before(from) && end.Before(until):
					taken = append(taken, one)
				}
				broken := w.Broken != nil
				mu.Unlock()
				if broken {
					return
				}
			}
		})
	}
	all.Wait()
	return taken
}
