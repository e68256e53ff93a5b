package door

import (
	"container/list"
	"context"
	"net/http"
	"sync"
	"time"
)

// Visit is a request under way, and what it holds of the memory for all. Nil is one that came through no door, of which
// nothing is counted. Its methods may be called concurrently.
type Visit struct {
	d         *Door
	conn      *connection
	deadlines deadlines
	cancel    context.CancelCauseFunc

	// Guarded by the budget's mutex.
	who    string        // "" is nobody who has proved it
	held   int64         // bytes
	body   int64         // bytes of them that are the body's, or what was made of it
	users  int           // the handler, and those who keep what it brought
	gone   bool          // it was evicted
	waited time.Duration // for room, since it last gave some back
	place  *list.Element
	answer *list.Element
}

type visitKey struct{}

// VisitOf returns the request that a context is of.
func VisitOf(ctx context.Context) *Visit {
	v, _ := ctx.Value(visitKey{}).(*Visit)
	return v
}

// requestCost is what a request takes beside its headers and its body: the stack of its handler, buffers, what it was
// read into.
const requestCost = 16 << 10

// errNoRoom is why a request of nobody ends that others take the place of.
var errNoRoom = Busy(http.StatusServiceUnavailable, "busy: too many requests of clients that have proved nothing")

// beginVisit notes a request. It is nobody's until an identity is proved, and nobody's oldest ones end when they are
// too many.
func (d *Door) beginVisit(w http.ResponseWriter, r *http.Request) (*Visit, *http.Request) {
	v := &Visit{d: d, deadlines: deadlines{rc: http.NewResponseController(w)}, users: 1, held: requestCost + int64(len(r.RequestURI))}
	for name, values := range r.Header {
		for _, value := range values {
			v.held += int64(len(name) + len(value))
		}
	}
	v.conn, _ = r.Context().Value(connKey{}).(*connection)
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), visitKey{}, v))
	v.cancel = cancel
	b := d.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	v.place = b.shareOf("").visits.PushBack(v)
	v.makeRoom(v.held)
	b.addHeld("", v.held)
	return v, r.WithContext(ctx)
}

// makeRoom ends the oldest requests of nobody, but this one, until there is room for n bytes more of its. The budget's
// mutex is held.
func (v *Visit) makeRoom(n int64) {
	b := v.d.budget
	visits := &b.shareOf("").visits
	for e := visits.Front(); e != nil && b.checkRoom("", n) != nil; {
		old := e.Value.(*Visit)
		if e = e.Next(); old != v {
			old.evict()
		}
	}
}

// evict ends a request of nobody, whose memory counts for nothing from now on. The budget's mutex is held.
func (v *Visit) evict() {
	v.removeFromDoor()
	v.d.budget.addHeld("", -v.held)
	v.held, v.gone = 0, true
	v.cancel(errNoRoom)
	go v.interrupt()
}

// removeFromDoor takes a request from those of nobody. The budget's mutex is held.
func (v *Visit) removeFromDoor() {
	if v.place != nil {
		v.d.budget.shareOf("").visits.Remove(v.place)
		v.place = nil
	}
}

// interrupt has what waits for a client end.
func (v *Visit) interrupt() {
	if v.deadlines.expire() && v.conn != nil && v.conn.hijacked.Load() {
		v.conn.Close()
	}
}

// Authenticate notes who sends the request. Its connection has proved itself from then on. The error is a *[Refused], or that
// of the request's context.
func Authenticate(ctx context.Context, who string) error {
	v := VisitOf(ctx)
	if v == nil {
		return nil
	}
	if v.conn != nil {
		v.conn.markAuthenticated(who)
	}
	b := v.d.budget
	return b.waitForRoom(ctx, v, func() *Refused {
		switch {
		case v.gone:
			return errNoRoom
		case v.who == who:
			return nil
		}
		if why := b.checkRoom(who, v.held); why != nil {
			return why
		}
		v.removeFromDoor()
		b.addHeld(who, v.held)
		b.addHeld(v.who, -v.held)
		v.who = who
		return nil
	})
}

// reserveBytes counts n more bytes for the request, or waits for them for a moment.
func (v *Visit) reserveBytes(ctx context.Context, n int64) error {
	if v == nil || n == 0 {
		return nil
	}
	b := v.d.budget
	return b.waitForRoom(ctx, v, func() *Refused {
		if v.gone || v.users == 0 { // it gives nothing back any more
			return errNoRoom
		}
		if v.who == "" {
			v.makeRoom(n)
		}
		if why := b.checkRoom(v.who, n); why != nil {
			return why
		}
		b.addHeld(v.who, n)
		v.held += n
		v.body += n
		return nil
	})
}

// ReleaseBody notes that nothing is held of what has come of the body so far.
func (v *Visit) ReleaseBody() {
	if v == nil {
		return
	}
	b := v.d.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := min(v.body, v.held); n > 0 { // an evicted one holds nothing
		b.addHeld(v.who, -n)
		v.held -= n
	}
	v.body, v.waited = 0, 0
}

// boundWait calls f, which waits for room until late. It reports what f does: all that a request waits is one bound,
// however often it does.
func (v *Visit) boundWait(f func(late <-chan time.Time) bool) bool {
	mu := &v.d.budget.mu
	mu.Lock()
	late := time.NewTimer(v.d.b.room - v.waited)
	mu.Unlock()
	defer late.Stop()
	begun := time.Now()
	had := f(late.C)
	mu.Lock()
	defer mu.Unlock()
	v.waited += time.Since(begun)
	return had
}

// RetainBody has what the request brought count also after its answer, until release.
func (v *Visit) RetainBody() (release func()) {
	if v == nil {
		return func() {}
	}
	b := v.d.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	v.users++
	return sync.OnceFunc(v.releaseUser)
}

// releaseUser notes that the handler, or whoever keeps what the request brought, needs that no more.
func (v *Visit) releaseUser() {
	b := v.d.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.users--; v.users > 0 {
		return
	}
	v.removeFromDoor()
	b.addHeld(v.who, -v.held)
	v.held = 0
}

// holdAnswer counts an answer of n bytes that is written at once, until done: it is in memory until its client has read
// it. Where the answers of an identity are too many, those end whose clients have been slow for longest.
func (v *Visit) holdAnswer(n int64) (done func()) {
	b := v.d.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shareOf(v.who)
	for b.checkRoom(v.who, n) != nil && s.answers.Len() > 0 {
		slow := s.answers.Remove(s.answers.Front()).(*Visit)
		slow.answer = nil
		go slow.interrupt()
	}
	v.answer = s.answers.PushBack(v)
	b.addHeld(v.who, n)
	who := v.who
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if v.answer != nil {
			s.answers.Remove(v.answer)
			v.answer = nil
		}
		b.addHeld(who, -n)
	}
}
