package approval

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// Many ask and answer the same at once: each question gets one answer, which all who asked see.
func TestRace(t *testing.T) {
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	b, _ := newBroker(t, Config{Audit: log, Timeout: 300 * time.Millisecond, Bus: event.NewBus()})
	var all sync.WaitGroup
	var mu sync.Mutex
	seen, won := map[string]Answer{}, map[string]int{}
	for i := range 16 {
		all.Go(func() {
			q := web
			q.What = fmt.Sprint(i % 5)
			p, err := b.Open(t.Context(), q)
			if err != nil {
				t.Error(err)
				return
			}
			a := Answer{Allowed: i%2 == 0, By: CommandLine(), User: fmt.Sprint(i)}
			err = error(nil)
			if i%5 != 0 { // nobody answers one of them
				err = b.Answer(t.Context(), p.Question.ID, a)
				// Where the disk is slow, its time may be up.
				if err != nil && !errors.Is(err, ErrAnswered) && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			}
			got := wait(t, p)
			b.Granted(q.Kind, q.Namespace, q.What, "")
			b.Pending()
			mu.Lock()
			defer mu.Unlock()
			if err == nil && i%5 != 0 {
				won[p.Question.ID]++
			}
			if before, ok := seen[p.Question.ID]; ok && before != got {
				t.Errorf("two answers to one question: %+v, %+v", before, got)
			}
			seen[p.Question.ID] = got
		})
	}
	all.Wait()
	for id, a := range seen {
		if n := won[id]; n > 1 || n == 0 && a.By != nobody() {
			t.Errorf("%d answers won: %+v", n, a)
		}
	}
	rows := map[string]int{}
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows[row.Run]++
	}
	for id := range seen {
		if rows[id] != 2 {
			t.Errorf("%d rows of question %s, want 2", rows[id], id)
		}
	}
}

// FuzzBroker compares a broker with the plainest thing that could keep the same promises.
func FuzzBroker(f *testing.F) {
	f.Add([]byte{0, 10, 60, 20, 30, 0, 11, 50})
	f.Add([]byte("ask, answer, wait"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		now := time.Unix(1e9, 0)
		b, _ := newBroker(t, Config{Now: func() time.Time { return now }, Timeout: time.Hour, Room: 100})
		type held struct{ until time.Time }
		model := map[key]held{}
		var asked []*Pending
		for _, op := range ops[:min(len(ops), 200)] {
			q := web
			q.What, q.CodeSHA256 = fmt.Sprint(op%3), []string{"", "a", "b"}[op/3%3]
			q.For = time.Duration(op%5+1) * time.Minute
			switch op >> 6 {
			case 0:
				asked = append(asked, ask(t, b, q))
			case 1, 2:
				if len(asked) == 0 {
					continue
				}
				p := asked[int(op&63)%len(asked)]
				a := no
				if op>>6 == 1 {
					a = yes
				}
				waits := slices.ContainsFunc(b.Pending(), func(q Question) bool { return q.ID == p.Question.ID })
				err := b.Answer(t.Context(), p.Question.ID, a)
				if (err == nil) != waits {
					t.Fatalf("it waits: %v, and an answer says %v", waits, err)
				}
				if err == nil && a.Allowed {
					model[p.Question.key()] = held{now.Add(p.Question.For)}
				}
			case 3:
				now = now.Add(time.Duration(op&63) * time.Second * 10)
			}
			for _, what := range []string{"0", "1", "2"} {
				for _, code := range []string{"", "a", "b"} {
					exact, all := model[key{Egress, "team", what, code}], model[key{Egress, "team", what, ""}]
					want := now.Before(exact.until) || now.Before(all.until)
					if _, got := b.Granted(Egress, "team", what, code); got != want {
						t.Fatalf("granted %q for code %q: %v, want %v", what, code, got, want)
					}
				}
			}
		}
	})
}
