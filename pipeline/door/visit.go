package door

import (
	"container/list"
	"context"
	"net/http"
	"sync"
	"time"
)

// Visit is a running request and its share of the memory for all. A nil Visit did not come through a door and is not
// counted. Its methods may be called concurrently.
type Visit struct {
	d         *Door
	conn      *connection
	deadlines deadlines
	cancel    context.CancelCauseFunc

	// Guarded by the budget's mutex.
	who    string        // identity; "" is none so far
	held   int64         // bytes
	body   int64         // part of held for the body and its decoded values
	users  int           // the handler, and each RetainBody
	gone   bool          // it was evicted
	waited time.Duration // time waited for room since the last release
	place  *list.Element
	answer *list.Element
}

type visitKey struct{}

// VisitOf returns the Visit of a context, or nil.
func VisitOf(ctx context.Context) *Visit {
	v, _ := ctx.Value(visitKey{}).(*Visit)
	return v
}

// requestCost is the memory of a request without its headers and its body: handler stack, buffers, parsed values.
const requestCost = 16 << 10

// errNoRoom ends a request without an identity whose place others take.
var errNoRoom = Busy(http.StatusServiceUnavailable, "busy: too many requests of clients without an identity")

// beginVisit counts a request. It has no identity until Authenticate, and the oldest requests without one end if
// there are too many.
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

// makeRoom evicts the oldest requests without an identity, except v, until there is room for n more bytes. The caller
// holds the budget's mutex.
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

// evict ends a request without an identity and releases its memory. The caller holds the budget's mutex.
func (v *Visit) evict() {
	v.removeFromDoor()
	v.d.budget.addHeld("", -v.held)
	v.held, v.gone = 0, true
	v.cancel(errNoRoom)
	go v.interrupt()
}

// removeFromDoor removes a request from those without an identity. The caller holds the budget's mutex.
func (v *Visit) removeFromDoor() {
	if v.place != nil {
		v.d.budget.shareOf("").visits.Remove(v.place)
		v.place = nil
	}
}

// interrupt ends all waiting for the client.
func (v *Visit) interrupt() {
	if v.deadlines.expire() && v.conn != nil && v.conn.hijacked.Load() {
		v.conn.Close()
	}
}

// Authenticate records the identity of the request and its connection. The error is a *[Refused], or that of the
// request's context.
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

// reserveBytes counts n more bytes for the request, and waits for room for a moment.
func (v *Visit) reserveBytes(ctx context.Context, n int64) error {
	if v == nil || n == 0 {
		return nil
	}
	b := v.d.budget
	return b.waitForRoom(ctx, v, func() *Refused {
		if v.gone || v.users == 0 { // its memory is no longer tracked
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

// ReleaseBody records that the body received so far is no longer in memory.
func (v *Visit) ReleaseBody() {
	if v == nil {
		return
	}
	b := v.d.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := min(v.body, v.held); n > 0 { // an evicted request holds nothing
		b.addHeld(v.who, -n)
		v.held -= n
	}
	v.body, v.waited = 0, 0
}

// boundWait calls f, which waits for room until late, and returns its result. All waits of a request share one bound.
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

// RetainBody counts the body of the request beyond its answer, until release.
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

// releaseUser ends one use of the request's body, by the handler or by RetainBody.
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

// holdAnswer counts an answer of n bytes that is written at once, until done, because it stays in memory until its
// client has read it. If an identity has too many, those of the slowest clients are cut off.
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
