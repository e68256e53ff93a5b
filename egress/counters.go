package egress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// A program may try any number of names. The number of counted decisions is bounded, and refused ones do not
// displace allowed ones.
const (
	maxRefused = 1000
	maxAllowed = 10_000
)

var (
	errUnrecorded = errors.New("the decision can't be recorded, so the connection is refused")
	errTooMany    = fmt.Errorf("%d different destinations are allowed at most, until the run ends", maxAllowed)
)

// counters counts decisions, and the bytes of their connections.
type counters struct {
	decided func(ctx context.Context, d Decision) error

	period    atomic.Int64 // number of takeRecords calls
	mu        sync.Mutex
	entries   map[bool]map[Decision]*entry // by whether the decision allows
	order     []*entry
	uncounted int64 // refusals without an entry
}

// entry counts a decision.
type entry struct {
	Decision
	sent, received atomic.Int64

	count   int64 // guarded by counters.mu
	holders int   // connections that may still count bytes; guarded by counters.mu

	recording  sync.Mutex   // held while decided runs: nothing leaves meanwhile
	recordedIn atomic.Int64 // 1 + the period in which decided was called
}

// countDecision counts d, and calls decided if this is the first time. The caller may act on an allowed decision only
// without an error, which is a reason for users. The entry, which may be nil, must be released.
func (t *counters) countDecision(ctx context.Context, d Decision) (*entry, error) {
	e := t.holdEntry(d)
	if e == nil {
		return nil, errTooMany
	}
	if err := e.record(context.WithoutCancel(ctx), t); err == nil || !d.Allowed {
		return e, nil
	}
	t.discount(e)
	t.release(e)
	return nil, errUnrecorded
}

// countRefusal counts a refusal, even if it can't be recorded: nothing leaves.
func (t *counters) countRefusal(ctx context.Context, d Decision) {
	e, _ := t.countDecision(ctx, d)
	t.release(e)
}

// holdEntry counts d without calling decided. It returns nil when there are too many entries.
func (t *counters) holdEntry(d Decision) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries == nil {
		t.entries = map[bool]map[Decision]*entry{true: {}, false: {}}
	}
	of, limit := t.entries[d.Allowed], maxRefused
	if d.Allowed {
		limit = maxAllowed
	}
	e := of[d]
	if e == nil {
		if len(of) >= limit {
			t.uncounted++
			return nil
		}
		e = &entry{Decision: d}
		of[d] = e
		t.order = append(t.order, e)
	}
	e.count++
	e.holders++
	return e
}

// discount undoes one count of e.
func (t *counters) discount(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.count > 0 { // otherwise takeRecords has returned it
		e.count--
	}
}

func (t *counters) release(e *entry) {
	if e == nil {
		return
	}
	t.mu.Lock()
	e.holders--
	t.mu.Unlock()
}

func (e *entry) record(ctx context.Context, t *counters) error {
	e.recording.Lock()
	defer e.recording.Unlock()
	now := t.period.Load() + 1
	if e.recordedIn.Load() == now {
		return nil
	}
	if t.decided == nil {
		return errUnrecorded
	}
	if err := t.decided(ctx, e.Decision); err != nil {
		return err
	}
	e.recordedIn.Store(now)
	return nil
}

// takeRecords returns the counts since the last call. It keeps the entries of open connections.
func (t *counters) takeRecords() []Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.period.Add(1)
	var records []Record
	before := t.order
	t.order = nil
	for _, e := range before {
		r := Record{Decision: e.Decision, Count: e.count, Sent: e.sent.Swap(0), Received: e.received.Swap(0)}
		e.count = 0
		if r.Count > 0 || r.Sent > 0 || r.Received > 0 {
			records = append(records, r)
		}
		if e.holders == 0 {
			delete(t.entries[e.Allowed], e.Decision)
			continue
		}
		t.order = append(t.order, e)
	}
	if t.uncounted > 0 {
		records = append(records, Record{Decision: Decision{Reason: fmt.Sprintf("and %d more", t.uncounted)}, Count: t.uncounted})
		t.uncounted = 0
	}
	return records
}
