package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGreedyNamespaceStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(1, 1000)
		hold := <-acquireAsync(t.Context(), q, "greedy", 1)
		var mu sync.Mutex
		var order []string
		work := func(namespace string) {
			leave, err := q.Acquire(t.Context(), namespace, 1, nil)
			if err != nil {
				t.Errorf("%s: %v", namespace, err)
				return
			}
			mu.Lock()
			order = append(order, namespace)
			mu.Unlock()
			leave()
		}
		for range 200 {
			go work("greedy")
		}
		synctest.Wait()
		for range 3 {
			go work("modest")
		}
		synctest.Wait()
		hold()
		synctest.Wait()
		if len(order) != 203 {
			t.Fatalf("%d runs came in, want 203", len(order))
		}
		last := 0
		for i, ns := range order {
			if ns == "modest" {
				last = i
			}
		}
		if last > 6 {
			t.Errorf("the modest namespace's third run came in as number %d behind a greedy one, want at most 6", last)
		}
	})
}

func TestGreedyNamespaceCannotFillTheWaitingRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(1, 4)
		hold := <-acquireAsync(t.Context(), q, "greedy", 1)
		var sentAway atomic.Int32
		for range 4 {
			go func() {
				leave, err := q.Acquire(t.Context(), "greedy", 1, nil)
				if errors.Is(err, ErrBusy) {
					sentAway.Add(1)
					return
				}
				leave()
			}()
		}
		synctest.Wait()
		if _, err := q.Acquire(t.Context(), "greedy", 1, nil); !errors.Is(err, ErrBusy) {
			t.Errorf("a fifth greedy waiter got %v, want ErrBusy", err)
		}
		modest := acquireAsync(t.Context(), q, "modest", 1)
		synctest.Wait()
		if got := sentAway.Load(); got != 1 {
			t.Errorf("%d greedy waiters were sent away, want 1", got)
		}
		hold()
		leave, ok := <-modest
		if !ok {
			t.Fatal("the modest namespace was refused although a greedy one held all places")
		}
		leave()
		synctest.Wait()
		if got := q.stats(); got.Busy != 0 || got.Waiting != 0 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

func TestFirstComeFirstServedWithinNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(1, 100)
		hold := <-acquireAsync(t.Context(), q, "a", 1)
		var order []int
		for i := range 20 {
			go func() {
				leave, err := q.Acquire(t.Context(), "a", 1, nil)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // one at a time: the queue has one slot
				leave()
			}()
			synctest.Wait()
		}
		hold()
		synctest.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("order %v", order)
			}
		}
	})
}

func TestHeavyRunIsNotOvertakenForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(4, 100)
		var holds []func()
		for range 3 {
			holds = append(holds, <-acquireAsync(t.Context(), q, "light", 1))
		}
		heavy := acquireAsync(t.Context(), q, "heavy", 99) // as heavy as the whole queue
		synctest.Wait()
		light := acquireAsync(t.Context(), q, "light", 1) // would fit now
		synctest.Wait()
		if len(light) != 0 {
			t.Error("a light run overtook the heavy one that waited")
		}
		for _, leave := range holds {
			leave()
		}
		synctest.Wait()
		if len(heavy) != 1 || len(light) != 0 {
			t.Fatalf("heavy in: %d, light in: %d; want 1 and 0", len(heavy), len(light))
		}
		(<-heavy)()
		(<-light)()
	})
}

func TestCancelledWaiterCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2, 10)
		hold := <-acquireAsync(t.Context(), q, "a", 2)
		cause := errors.New("the user went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			_, err := q.Acquire(ctx, "a", 2, nil)
			done <- err
		}()
		synctest.Wait()
		cancel(cause)
		if err := <-done; err != cause {
			t.Errorf("got %v, want the cause", err)
		}
		if got := q.stats(); got.Waiting != 0 {
			t.Errorf("a cancelled waiter still waits: %+v", got)
		}
		if _, err := q.Acquire(ctx, "a", 1, nil); err != cause {
			t.Errorf("entering when cancelled: got %v", err)
		}
		hold()
		hold() // a second call gives nothing back
		if got := q.stats(); got.Busy != 0 {
			t.Errorf("busy at the end: %+v", got)
		}
	})
}

func TestCancelledHeavyWaiterLetsLightOnesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2, 10)
		hold := <-acquireAsync(t.Context(), q, "a", 1)
		ctx, cancel := context.WithCancel(t.Context())
		heavy := acquireAsync(ctx, q, "b", 2)
		synctest.Wait()
		light := acquireAsync(t.Context(), q, "c", 1)
		synctest.Wait()
		cancel()
		<-heavy
		(<-light)() // hangs, and synctest says so, if nobody let it in
		hold()
	})
}

// A caller that gets a slot and gives up in the same moment must not take the slot along.
func TestSlotThatComesWithTheCancelIsReleased(t *testing.T) {
	for range 300 {
		q := NewQueue(1, 10)
		hold, err := q.Acquire(t.Context(), "a", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan struct{})
		done := make(chan func())
		go func() {
			leave, _ := q.Acquire(ctx, "a", 1, func(int) { close(waits) })
			done <- leave
		}()
		<-waits
		runtime.Gosched()
		cancel()
		hold() // before the one that waits has woken up, more often than not
		if leave := <-done; leave != nil {
			leave()
		}
		if got := q.stats(); got.Busy != 0 || got.Waiting != 0 {
			t.Fatalf("a slot was lost: %+v", got)
		}
	}
}

func TestFullQueueSaysSoAtOnce(t *testing.T) {
	q := NewQueue(1, 0)
	leave, err := q.Acquire(t.Context(), "a", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	_, err = q.Acquire(t.Context(), "b", 1, func(int) { t.Error("called for somebody who may not wait") })
	if !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

// Many runs of many namespaces enter, leave and give up at random; the queue must never let in too
// much, and must be empty at the end. It is meant for the race detector.
func TestQueueHoldsItsBound(t *testing.T) { synctest.Test(t, queueHoldsItsBound) }

func queueHoldsItsBound(t *testing.T) {
	const slots = 5
	q := NewQueue(slots, 50)
	var inside, entered atomic.Int32
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20))*time.Millisecond)
			defer cancel()
			weight := 1 + rand.IntN(slots)
			leave, err := q.Acquire(ctx, fmt.Sprint(i%7), weight, func(int) {})
			if err != nil {
				return
			}
			entered.Add(1)
			if n := inside.Add(int32(weight)); n > slots {
				t.Errorf("a weight of %d is inside, want at most %d", n, slots)
			}
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			inside.Add(-int32(weight))
			leave()
		})
	}
	wg.Wait()
	if entered.Load() == 0 {
		t.Error("nobody came in")
	}
	if got := q.stats(); got.Busy != 0 || got.Waiting != 0 || len(q.parties) != 0 || len(q.turns) != 0 || len(q.running) != 0 {
		t.Errorf("at the end: %+v, %d parties, %d turns, %d run", got, len(q.parties), len(q.turns), len(q.running))
	}
}

func BenchmarkQueueFree(b *testing.B) {
	q := NewQueue(4, 4)
	for b.Loop() {
		leave, _ := q.Acquire(b.Context(), "a", 1, nil)
		leave()
	}
}

// queueStats is a queue at one moment.
type queueStats struct{ Busy, Waiting int }

func (q *Queue) stats() queueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return queueStats{Busy: q.taken, Waiting: q.waiting}
}

// TestReturn: a caller that returns is let in before those of its namespace that have not begun, and is not refused for
// lack of room; other namespaces get their share all the same.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(1, 2)
		hold := <-acquireAsync(t.Context(), q, "a", 1)
		var mu sync.Mutex
		var order []string
		come := func(name, namespace string, enter func(context.Context, string, int, func(int)) (func(), error)) {
			go func() {
				leave, err := enter(t.Context(), namespace, 1, nil)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					order = append(order, "no "+name)
					return
				}
				order = append(order, name)
				leave()
			}()
			synctest.Wait()
		}
		come("a1", "a", q.Acquire)
		come("back1", "a", q.Reacquire)
		come("back2", "a", q.Reacquire)
		come("a2", "a", q.Acquire)
		come("a3", "a", q.Acquire) // there is no room
		come("b", "b", q.Acquire)  // takes the place of a2
		hold()
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[no a3 no a2 back1 b back2 a1]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if now := q.load(); now.Running != 0 || now.Waiting != 0 || q.returning != 0 {
			t.Errorf("%d run, %d wait, %d of them again", now.Running, now.Waiting, q.returning)
		}
	})
}

// acquireAsync starts a run that waits for its turn, and says so on the returned channel.
func acquireAsync(ctx context.Context, q *Queue, namespace string, weight int) chan func() {
	in := make(chan func(), 1)
	go func() {
		if leave, err := q.Acquire(ctx, namespace, weight, nil); err == nil {
			in <- leave
		} else {
			close(in)
		}
	}()
	return in
}
