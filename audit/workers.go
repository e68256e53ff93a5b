package audit

import (
	"context"
	"math"
	"runtime"
	"sync"
)

// chunks yields the chunks of the log, in order.
func (v *verification) chunks(yield func(*chunk) bool) {
	next := int64(1)
	for i := range v.segments {
		s := &v.segments[i]
		if !yield(&chunk{first: s.First, last: s.Last, segment: s, done: make(chan struct{})}) {
			return
		}
		next = s.Last + 1
	}
	from := int64(math.MinInt64)
	for first := next; first <= v.head || from < 0; {
		last := max(v.head, first-1)
		if last-first >= chunkRows {
			last = first + chunkRows - 1
		}
		if !yield(&chunk{first: first, last: last, from: from, done: make(chan struct{})}) {
			return
		}
		if last >= v.head {
			return
		}
		first, from = last+1, last+1
	}
}

// rows checks all chunks, and joins them in order.
func (v *verification) rows(ctx context.Context) (*Bad, error) {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	n := runtime.GOMAXPROCS(0)
	todo, order := make(chan *chunk, n), make(chan *chunk, 2*n)
	workers.Go(func() {
		defer close(todo)
		defer close(order)
		for c := range v.chunks {
			for _, to := range []chan *chunk{order, todo} {
				select {
				case to <- c:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	for range n {
		workers.Go(func() { v.work(ctx, todo) })
	}
	for c := range order {
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if bad, err := v.join(ctx, c); bad != nil || err != nil {
			return bad, err
		}
	}
	return nil, ctx.Err()
}

func (v *verification) work(ctx context.Context, todo <-chan *chunk) {
	conn, err := v.l.db.Conn(ctx)
	if err == nil {
		defer conn.Close()
	}
	for c := range todo {
		if err != nil {
			c.err = err
			close(c.done)
			continue
		}
		c.check(ctx, conn, v.ring)
	}
}
