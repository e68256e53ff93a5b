package wiring

import (
	"context"
	"log/slog"
	"time"
)

// sealEvery is how often a server looks for rows that are old enough to be sealed.
const sealEvery = 24 * time.Hour

// Sealing moves rows that are older than some days out of the log into sealed segments: now, and each day
// from now on. It ends with stop, which waits for what is under way. No days are never.
func (p *Parts) Sealing(ctx context.Context, days int, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for days > 0 {
			p.seal(ctx, time.Now().AddDate(0, 0, -days), log)
			select {
			case <-ctx.Done():
				return
			case <-time.After(sealEvery):
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (p *Parts) seal(ctx context.Context, before time.Time, log *slog.Logger) {
	rows, err := p.Log.opened(ctx)
	if err != nil {
		return // whoever wants to run something is told
	}
	segments, err := rows.Seal(ctx, before)
	if err != nil && ctx.Err() == nil {
		log.Error("rows of the log could not be sealed", "before", before, "error", err)
	}
	for _, s := range segments {
		log.Info("rows of the log were sealed", "from", s.First, "to", s.Last, "file", s.File)
	}
}
