package approval

import "maps"

// Forget drops what was said for a run or a session that has ended, and withdraws what the run asked
// and nobody has answered. Whoever waits with it asks again.
func (b *Broker) Forget(id string) {
	if id == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	its := func(k bound, _ grant) bool { return k.id == id }
	maps.DeleteFunc(b.granted, its)
	maps.DeleteFunc(b.denied, its)
	for _, w := range b.same {
		if w.q.Run != id {
			continue
		}
		w.gone = true
		if b.open[w.q.ID] == w && !b.closed { // else it is withdrawn when it is recorded, or by Close
			b.writing.Go(func() { b.withdraw(w) })
		}
	}
}

// withdraw answers a question whose run has ended, for that run only.
func (b *Broker) withdraw(w *asked) {
	b.deny(w, Answer{Scope: ScopeRun, Reason: "the run that asked has ended"})
}
