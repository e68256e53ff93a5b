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
	b.pools(ctx, false)
	var ways []*way
	for _, w := range b.ways {
		if w.loaded && w.broken == nil {
			ways = append(ways, w)
		}
	}
	s := b.stretches()
	cores := runtime.NumCPU()
	taken := make([][]time.Duration, len(ways))
	for n := range s.times {
		for _, i := range rand.Perm(len(ways)) {
			w := ways[i]
			b.say(ctx, "%s: %s with all cores busy, %d of %d", w.language, w.name, n+1, s.times)
			taken[i] = append(taken[i], w.load(ctx, cores, s)...)
			pause(ctx, 4*settle)
		}
	}
	for i, w := range ways {
		l := Load{Language: w.language, Way: w.name, Concurrency: cores, Seconds: (time.Duration(s.times) * s.each).Seconds(), Spread: spread(taken[i]), Error: w.why()}
		l.PerSecond = round(float64(l.Runs) / l.Seconds)
		b.report.Load = append(b.report.Load, l)
	}
	b.pools(ctx, true)
}

// load returns how long those runs took that ended within one stretch.
func (w *way) load(ctx context.Context, callers int, s stretches) (taken []time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	from := time.Now().Add(s.lead)
	until := from.Add(s.each)
	for range callers {
		all.Go(func() {
			for time.Now().Before(until) && ctx.Err() == nil {
				took, err := w.run(ctx)
				end := time.Now()
				mu.Lock()
				switch {
				case err != nil && ctx.Err() == nil && w.broken == nil:
					w.broken = err
				case err == nil && !end.Before(from) && end.Before(until):
					taken = append(taken, took)
				}
				broken := w.broken != nil
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
