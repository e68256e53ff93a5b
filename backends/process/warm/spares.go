package warm

import (
	"context"
	"sync"
)

// Spare is a process that was started before its use is known. Its methods may be called concurrently.
type Spare interface {
	Good() bool // it lives, and equals a new one
	Remove()    // ends it, and the processes that it has spawned
}

// Spares keeps a number of items ready for each requested key.
type Spares[T Spare] struct {
	Enough int                                                         // per key
	Bound  func(context.Context) (context.Context, context.CancelFunc) // bounds the time for making each

	mu     sync.Mutex
	coming map[string][]chan T // made or in the making; each channel delivers one item, or is closed after a failure
	making sync.WaitGroup
	closed bool
}

// Acquire returns an item of a key, and begins to make one for the next caller.
func (s *Spares[T]) Acquire(ctx context.Context, key string, begin func(context.Context) (T, error)) (none T, _ error) {
	defer s.Fill(key, s.Enough, begin)
	for next := s.popNext(key); next != nil; next = s.popNext(key) {
		select {
		case one, made := <-next:
			if made && one.Good() {
				return one, nil
			}
			if made {
				one.Remove()
			}
		case <-ctx.Done():
			s.making.Go(func() { discard(next) })
			return none, ctx.Err()
		}
	}
	return begin(ctx) // after a failure, the caller gets the error
}

// discard removes an item once it is made.
func discard[T Spare](next chan T) {
	if one, made := <-next; made {
		one.Remove()
	}
}

// popNext removes the first item from the list.
func (s *Spares[T]) popNext(key string) chan T {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.coming[key]
	if len(list) == 0 {
		return nil
	}
	s.coming[key] = list[1:]
	return list[0]
}

// Fill begins to make items of a key until there are enough.
func (s *Spares[T]) Fill(key string, enough int, begin func(context.Context) (T, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && len(s.coming[key]) < enough {
		next := make(chan T, 1)
		if s.coming == nil {
			s.coming = map[string][]chan T{}
		}
		s.coming[key] = append(s.coming[key], next)
		s.making.Go(func() {
			defer close(next)
			ctx, cancel := s.Bound(context.Background())
			defer cancel()
			if one, err := begin(ctx); err == nil {
				next <- one
			}
		})
	}
}

// Close removes the remaining items, and makes no more.
func (s *Spares[T]) Close() {
	s.mu.Lock()
	s.closed = true
	coming := s.coming
	s.coming = nil
	s.mu.Unlock()
	for _, list := range coming {
		for _, next := range list {
			discard(next)
		}
	}
	s.making.Wait()
}
