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

// Many ask and answer the same at once: each question gets one answer, and all askers see the same one.
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
	b.Close() // a no counts before it is recorded
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
		type held struct {
			q     Question
			scope string
			until time.Time
		}
		var model []held
		var asked []*Pending
		runs := []Question{questionOf("", ""), questionOf("r1", "s1"), questionOf("r2", "s1"), questionOf("r3", "")}
		for i, op := range ops[:min(len(ops), 200)] {
			q := runs[i%len(runs)]
			q.What, q.CodeSHA256 = fmt.Sprint(op%3), []string{"", "a", "b"}[op/3%3]
			q.For = time.Duration(op%5+1) * time.Minute
			switch op >> 6 {
			case 0:
				asked = append(asked, openQuestion(t, b, q))
			case 1, 2:
				if len(asked) == 0 {
					continue
				}
				p := asked[int(op&63)%len(asked)]
				a := no
				if op>>6 == 1 {
					a = scoped([]string{"", ScopeTime, ScopeSession, ScopeRun}[i/3%4])
				}
				waits := slices.ContainsFunc(b.Pending(), func(q Question) bool { return q.ID == p.Question.ID })
				fits := a.Scope == "" || a.Scope == ScopeTime || a.Scope == ScopeSession && p.Question.Session != "" || a.Scope == ScopeRun &&
					p.Question.Run != ""
				err := b.Answer(t.Context(), p.Question.ID, a)
				if (err == nil) != (waits && fits) {
					t.Fatalf("it waits: %v, its scope fits: %v, and an answer says %v", waits, fits, err)
				}
				if err == nil && a.Allowed {
					model = append(model, held{p.Question, a.Scope, now.Add(p.Question.For)})
				}
			case 3:
				now = now.Add(time.Duration(op&63) * time.Second * 10)
				if op&7 == 7 {
					b.Forget("s1")
					model = slices.DeleteFunc(model, func(h held) bool { return h.scope == ScopeSession })
				}
			}
			for _, who := range runs {
				for _, who.What = range []string{"0", "1", "2"} {
					for _, who.CodeSHA256 = range []string{"", "a", "b"} {
						want := slices.ContainsFunc(model, func(h held) bool {
							return now.Before(h.until) && h.q.What == who.What && (h.q.CodeSHA256 == "" || h.q.CodeSHA256 == who.CodeSHA256) &&
								(h.scope == "" || h.scope == ScopeTime || h.scope == ScopeSession && h.q.Session == who.Session || h.scope == ScopeRun &&
									h.q.Run == who.Run)
						})
						got := slices.ContainsFunc(b.GrantsFor(Egress, who), func(g Grant) bool { return g.Question.What == who.What })
						if got != want {
							t.Fatalf("held %q for code %q of %q in %q: %v, want %v", who.What, who.CodeSHA256, who.Run, who.Session, got, want)
						}
					}
				}
			}
		}
	})
}
