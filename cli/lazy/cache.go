package lazy

import (
	"sync"
	"time"
)

// maxCached bounds the stored answers. When it is reached, all are dropped.
const maxCached = 200

// Cache caches answers to slow questions. The zero value is empty. It is safe for concurrent use.
type Cache[T any] struct {
	mu  sync.Mutex
	all map[string]cached[T]
}

type cached[T any] struct {
	value T
	when  time.Time
}

// Get returns the answer to a question, unless it is older than age.
func (a *Cache[T]) Get(question string, age time.Duration) (value T, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.all[question]
	return found.value, ok && time.Since(found.when) < age
}

// Store stores the answer to a question.
func (a *Cache[T]) Store(question string, value T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil || len(a.all) >= maxCached {
		a.all = map[string]cached[T]{}
	}
	a.all[question] = cached[T]{value, time.Now()}
}
