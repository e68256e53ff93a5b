package identity

import (
	"container/list"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits are token buckets by key. If there are too many, the least recently used is dropped.
type limits struct {
	every rate.Limit
	burst int
	max   int

	mu    sync.Mutex
	byKey map[string]*list.Element
	used  list.List // of *bucket, the last used first
}

type bucket struct {
	key string
	*rate.Limiter
}

func newLimits(every rate.Limit, burst, max int) *limits {
	return &limits{every: every, burst: burst, max: max, byKey: map[string]*list.Element{}}
}

// wait returns the time until a key has a token, 0 if it has one, without taking it.
func (l *limits) wait(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.byKey[key]
	if !ok {
		return 0
	}
	missing := 1 - e.Value.(*bucket).Tokens()
	if missing <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(missing / float64(l.every) * float64(time.Second)))
}

// consume takes a token from a key's bucket, even if it is empty: concurrent calls may have seen the same token.
// Their number bounds the debt.
func (l *limits) consume(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.byKey[key]
	if !ok {
		if l.used.Len() >= l.max {
			last := l.used.Back()
			delete(l.byKey, last.Value.(*bucket).key)
			l.used.Remove(last)
		}
		e = l.used.PushFront(&bucket{key, rate.NewLimiter(l.every, l.burst)})
		l.byKey[key] = e
	}
	l.used.MoveToFront(e)
	e.Value.(*bucket).Reserve()
}

// allow takes a token if there is one, else it returns the time to wait for it.
func (l *limits) allow(key string) time.Duration {
	wait := l.wait(key)
	if wait == 0 {
		l.consume(key)
	}
	return wait
}
