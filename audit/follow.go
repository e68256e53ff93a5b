package audit

import (
	"context"
	"iter"
	"time"
)

// Follow yields the rows of Rows and then, until ctx ends, new rows. It looks for them
// that often, which costs some microseconds where nothing has happened.
func (l *Log) Follow(ctx context.Context, f Filter, every time.Duration) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		tick := time.NewTicker(max(every, time.Millisecond))
		defer tick.Stop()
		for {
			if more, err := l.catchUp(ctx, &f, yield); ctx.Err() != nil || !more {
				return
			} else if err != nil {
				yield(Row{}, l.readError(err))
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

// catchUp yields the rows that f chooses up to now, and moves f behind them.
func (l *Log) catchUp(ctx context.Context, f *Filter, yield func(Row, error) bool) (more bool, err error) {
	head, err := lastSeq(ctx, l.db)
	if err != nil || head <= f.After {
		return true, err
	}
	more = true
	err = l.each(ctx, *f, func(r Row) bool {
		f.After = r.Seq
		more = yield(r, nil)
		return more
	})
	f.After, f.Limit = max(f.After, head), 0 // also past rows that f does not choose
	return more, err
}
