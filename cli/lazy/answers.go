package lazy

import (
	"sync"
	"time"
)

// maxAnswers bounds the answers that are remembered. When there are as many, all are forgotten.
const maxAnswers = 200

// Answers remembers answers to questions that take long. The zero value is empty. It may be used concurrently.
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

// Put remembers the answer to a question.
func (a *Answers[T]) Put(question string, value T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil || len(a.all) >= maxAnswers {
		a.all = map[string]answer[T]{}
	}
	a.all[question] = answer[T]{value, time.Now()}
}
