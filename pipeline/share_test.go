package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// asTenant returns a context whose caller has an identity, or none for "".
func asTenant(ctx context.Context, identity string) context.Context {
	return WithCaller(ctx, Caller{Identity: identity})
}

// TestEndlessRunsKeepNobodyOut: whatever runs of one tenant never end, in whatever namespaces and of whatever weight,
// those of others begin soon, one after the other.
func TestEndlessRunsKeepNobodyOut(t *testing.T) {
	for _, tt := range []struct {
		name       string
		identity   string // of the tenant with the endless runs
		namespaces int
		runs       int // in each
		weight     int
	}{
		{"three of a namespace", "", 1, 3, 1},
		{"many of a namespace", "", 1, 100, 1},
		{"of an identity", "ann", 1, 100, 1},
		{"of many namespaces of an identity", "ann", 50, 3, 1},
		{"heavy", "ann", 3, 3, 9},
	} {
		for _, slots := range []int{1, 2, 3, 8} {
			for _, weight := range []int{1, slots} {
				t.Run(fmt.Sprintf("%s/%d slots/weight %d", tt.name, slots, weight), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						q := NewQueue(slots, 256)
						ctx, cancel := context.WithCancel(t.Context())
						var leaves []chan func()
						for ns := range tt.namespaces {
							for range tt.runs {
								leaves = append(leaves, acquireAsync(asTenant(ctx, tt.identity), q, fmt.Sprint("a", ns), tt.weight))
							}
						}
						synctest.Wait()
						for i := range 50 {
							began := time.Now()
							leave, err := q.Acquire(asTenant(t.Context(), "bob"), "b", weight, nil)
							if waited := time.Since(began); err != nil || waited > 2*SlotTime {
								t.Fatalf("run %d of the other began after %v: %v", i, waited, err)
							}
							time.Sleep(100 * time.Millisecond)
							leave()
						}
						if now := q.load(); now.Running > q.maxSlots() || now.Running < min(slots, tt.namespaces*tt.runs) {
							t.Errorf("%d slots are taken of %d, which must be %d at most", now.Running, slots, q.maxSlots())
						}
						cancel()
						for _, in := range leaves {
							if leave, ok := <-in; ok {
								leave()
							}
						}
						if now := q.stats(); now.Busy+now.Waiting+len(q.parties)+len(q.running) != 0 {
							t.Errorf("at the end: %+v", now)
						}
					})
				})
			}
		}
	}
}

// TestShares: a namespace that has its share of a queue, or more, gets no more while all slots are taken; others get
// their shares beside long runs, and all together stay below the bound.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(4, 256)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		load := func(namespace string, runs int) {
			for range runs {
				acquireAsync(asTenant(ctx, namespace), q, namespace, 1)
				synctest.Wait()
			}
			time.Sleep(time.Minute)
		}
		for _, step := range []struct {
			namespace string
			want      string
		}{
			{"a", "[{a 4 6}]"},                         // all, of one that is alone
			{"b", "[{a 4 6} {b 2 8}]"},                 // half
			{"c", "[{a 4 6} {b 2 8} {c 1 9}]"},         // a third
			{"d", "[{a 4 6} {b 2 8} {c 1 9} {d 1 9}]"}, // a quarter
		} {
			load(step.namespace, 10)
			if got := fmt.Sprint(q.load().Namespaces); got != step.want {
				t.Errorf("with %s: got %s, want %s", step.namespace, got, step.want)
			}
		}
		for i := range 20 {
			load(fmt.Sprint("e", i), 2)
		}
		if now := q.load(); now.Running != q.maxSlots() {
			t.Errorf("%d slots are taken, and as many want one; want %d", now.Running, q.maxSlots())
		}
		cancel()
		synctest.Wait()
	})
}

// TestIdentityLeavesRoom: an identity has no more of the slots beyond those of the queue by many namespaces than it
// leaves to others.
func TestIdentityLeavesRoom(t *testing.T) {
	for _, slots := range []int{1, 2, 4, 16} {
		synctest.Test(t, func(t *testing.T) {
			q := NewQueue(slots, 256)
			ctx, cancel := context.WithCancel(t.Context())
			for i := range 100 {
				acquireAsync(asTenant(ctx, "ann"), q, fmt.Sprint(i), 1)
			}
			time.Sleep(time.Hour)
			if now := q.load(); now.Running <= slots || 2*now.Running > q.maxSlots()+1 {
				t.Errorf("%d slots: %d are taken by one identity, of %d at most", slots, now.Running, q.maxSlots())
			}
			cancel()
			synctest.Wait()
		})
	}
}

// TestNamespaceLeavesRoom: nor has a namespace all of them by many identities.
func TestNamespaceLeavesRoom(t *testing.T) {
	for _, slots := range []int{1, 2, 4, 16} {
		synctest.Test(t, func(t *testing.T) {
			q := NewQueue(slots, 256)
			ctx, cancel := context.WithCancel(t.Context())
			for i := range 100 {
				acquireAsync(asTenant(ctx, fmt.Sprint(i)), q, "a", 1)
				time.Sleep(time.Minute)
			}
			if now := q.load(); now.Running <= slots {
				t.Errorf("%d slots: identities have %d, and none beside those that take long", slots, now.Running)
			}
			for i := range (q.maxSlots() - slots) / 2 {
				began := time.Now()
				acquireAsync(asTenant(ctx, fmt.Sprint("other", i)), q, fmt.Sprint("b", i), 1)
				time.Sleep(time.Minute)
				if q.slotsTakenIn(fmt.Sprint("b", i)) != 1 {
					t.Errorf("%d slots: namespace %d has none after %v", slots, i, time.Since(began))
				}
			}
			cancel()
			synctest.Wait()
		})
	}
}

// TestShortRunsKeepToTheSlots: runs that leave within slotTime never have more than the slots, however many wait.
func TestShortRunsKeepToTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2, 256)
		for i := range 100 {
			go func() {
				leave, err := q.Acquire(t.Context(), fmt.Sprint(i), 1, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if now := q.load(); now.Running > 2 {
					t.Errorf("%d slots are taken", now.Running)
				}
				time.Sleep(SlotTime - 1)
				leave()
			}()
		}
		time.Sleep(time.Hour)
		if now := q.stats(); now.Busy+now.Waiting != 0 {
			t.Errorf("at the end: %+v", now)
		}
	})
}

// TestIdentityCannotFillTheWaitingRoom: nor can it by many namespaces, nor have all turns.
func TestIdentityCannotFillTheWaitingRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(1, 20)
		hold := <-acquireAsync(t.Context(), q, "hold", 1)
		var order []string
		come := func(identity, namespace string) {
			leave, err := q.Acquire(asTenant(t.Context(), identity), namespace, 1, nil)
			switch {
			case err == nil:
				order = append(order, identity) // one at a time: the queue has one slot
				leave()
			case identity == "bob" || !errors.Is(err, ErrBusy):
				t.Errorf("%s: %v", identity, err)
			}
		}
		for i := range 30 {
			go come("ann", fmt.Sprint(i))
		}
		synctest.Wait()
		for range 3 {
			go come("bob", "b")
		}
		synctest.Wait()
		hold()
		synctest.Wait()
		if len(order) != 20 {
			t.Fatalf("%d came in, want 20", len(order))
		}
		for i, identity := range order {
			if identity == "bob" && i > 5 {
				t.Errorf("the other's run came in as number %d: %v", i+1, order)
			}
		}
	})
}
