package lazy

import (
	"sync"
	"time"
)

// maxAnswers bounds the stored answers. When it is reached, all are dropped.
const maxAnswers = 200

// Answers caches answers to slow questions. The zero value is empty. It is safe for concurrent use.
type Answers[T any] struct {
	mu  sync.Mutex
	all map[string]answer[T]
}

type answer[T any] struct {
	value T
	when  time.Time
}

// Get returns the answer to a question, unless it is older than age.
func (a *Answers[T]) Get(question string, age time.Duration) (value T, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.all[question]
	return found.value, ok && time.Since(found.when) < age
}

// Put stores the answer to a question.
func (a *Answers[T]) Put(question string, value T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil || len(a.all) >= maxAnswers {
		a.all = map[string]answer[T]{}
	}
	a.all[question] = answer[T]{value, time.Now()}
}
