package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
)

// callOrder keeps calls that run something in one session in the order in which they were sent. Models
// write several calls at once, the second of which needs what the first has set, and clients send
// them without waiting; each is a goroutine of its own, and those start in any order.
type callOrder struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by sessions: closed when the newest call has ended
}

// predecessors is the place of one call among those of its sessions: those before it, each of which is closed
// when that call has ended.
type predecessors []chan struct{}

type predecessorsKey struct{}

// orderedTools wait for the calls before them. A tool that ends a session must not.
var orderedTools = []string{"execute_code", "bridge_data", "install_package"}

// take gives a request its turn, and returns what must be called when it has ended. It is called
// in the order of the requests.
func (t *callOrder) take(ctx context.Context, m *message) (context.Context, func()) {
	ids := sessionsOf(m)
	if len(ids) == 0 {
		return ctx, func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]chan struct{}{}
	}
	own, place := make(chan struct{}), predecessors{}
	for _, id := range ids {
		if before := t.last[id]; before != nil {
			place = append(place, before)
		}
		t.last[id] = own
	}
	return context.WithValue(ctx, predecessorsKey{}, place), func() { t.leave(ids, own) }
}

// leave lets the next call of each id go on.
func (t *callOrder) leave(ids []string, own chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(own)
	for _, id := range ids {
		if t.last[id] == own {
			delete(t.last, id)
		}
	}
}

// awaitPredecessors waits until the calls before this one have ended, or ctx ends.
func awaitPredecessors(ctx context.Context) {
	place, _ := ctx.Value(predecessorsKey{}).(predecessors)
	for _, before := range place {
		select {
		case <-before:
		case <-ctx.Done():
			return
		}
	}
}

// sessionsOf are the sessions that a request runs something in. Most requests have none, and large
// ones are not read for that.
func sessionsOf(m *message) []string {
	if m.method != "tools/call" || !bytes.Contains(m.Params, []byte(`session_id"`)) {
		return nil
	}
	var p struct {
		Name      string `json:"name"`
		Arguments struct {
			To   string `json:"session_id"`
			From string `json:"from_session_id"`
		} `json:"arguments"`
	}
	if json.Unmarshal(m.Params, &p) != nil || !slices.Contains(orderedTools, p.Name) {
		return nil // what is wrong with it is said elsewhere
	}
	ids := slices.Compact([]string{p.Arguments.To, p.Arguments.From})
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}
