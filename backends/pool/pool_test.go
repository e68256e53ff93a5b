package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// name is the key of items without content.
type name string

func (n name) Kind() (string, int64) { return string(n[:1]), 1 }

type item struct {
	number int64
	ends   chan struct{} // closed when the item ends by itself
	leased chan struct{}
	useful atomic.Bool
	closed atomic.Bool
}

func (i *item) Lease() bool { close(i.leased); return i.useful.Load() }
func (i *item) NotifyEnd(ended func()) {
	go func() {
		select {
		case <-i.ends:
			ended()
		case <-i.leased:
		}
	}()
}
func (i *item) Memory() int64 { return 1 << 20 }
func (i *item) Close() error {
	if i.closed.Swap(true) {
		return errors.New("closed twice")
	}
	select {
	case <-i.leased:
	default:
		close(i.leased)
	}
	return nil
}

// plant makes items, each in one second.
type plant struct {
	mu sync.Mutex
	plantState
	fail error
}

// plantState counts the items of a plant.
type plantState struct {
	made []*item
	now  int // in the making
	peak int // maximum of now
}

func (p *plant) saw() plantState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plantState
}

// fails makes the plant fail with err, or with nil succeed.
func (p *plant) fails(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
}

func (p *plant) makeItem(ctx context.Context, _ name) (*item, error) {
	p.mu.Lock()
	p.now++
	p.peak = max(p.peak, p.now)
	p.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
	if p.fail != nil {
		return nil, p.fail
	}
	one := &item{number: int64(len(p.made)), ends: make(chan struct{}), leased: make(chan struct{})}
	one.useful.Store(true)
	p.made = append(p.made, one)
	return one, nil
}

// openItems counts the items that were made and not closed.
func (p *plant) openItems() (n int) {
	for _, one := range p.saw().made {
		if !one.closed.Load() {
			n++
		}
	}
	return n
}

// sleep lets time pass, and waits for everything due by then.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (p *Pool[K, I]) bucketCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.buckets)
}

func inPool(t *testing.T, c Config[name, *item], f func(*testing.T, *plant, *Pool[name, *item])) {
	synctest.Test(t, func(t *testing.T) {
		made := new(plant)
		c.Make = made.makeItem
		p := New(c)
		defer p.Close()
		f(t, made, p)
	})
}

var roomy = Config[name, *item]{Max: 100, Memory: 1 << 40, Idle: time.Hour}

// TestPoolFollowsDemand checks that as many items are made as were missed, that the oldest is leased, and that few
// are made at once.
func TestPoolFollowsDemand(t *testing.T) {
	inPool(t, roomy, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		for range 10 {
			if one, why := p.LeaseItem("a"); one != nil || why != "no idle sandbox" {
				t.Fatal(one, why)
			}
		}
		if saw := made.saw(); len(saw.made)+saw.now > 0 {
			t.Error("one is made before the program that found none has had its moment")
		}
		sleep(time.Minute)
		if n, want := len(p.Idle("a")), 2*runtime.NumCPU(); n != want || made.saw().peak > max(1, runtime.NumCPU()/2) {
			t.Errorf("%d stand ready, want %d; %d were made at once", n, want, made.saw().peak)
		}
		one, why := p.LeaseItem("a")
		if one == nil || one.number != 0 || why != "" {
			t.Errorf("%+v %q, want the oldest", one, why)
		}
		if other, _ := p.LeaseItem("b"); other != nil {
			t.Error("took another key's")
		}
	})
}

// TestPoolBounds checks that the pool never exceeds its bounds.
func TestPoolBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config[name, *item]
		peak   int
	}{
		{"number", Config[name, *item]{Max: 2, Memory: 1 << 40, Idle: time.Hour}, 2},
		{"memory", Config[name, *item]{Max: 100, Memory: defaultBytes - 1, Idle: time.Hour}, 0},
		{"memory as measured", Config[name, *item]{Max: 100, Memory: defaultBytes + 2<<20, Idle: time.Hour}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			inPool(t, c.config, func(t *testing.T, made *plant, p *Pool[name, *item]) {
				for i := range 20 {
					if one, _ := p.LeaseItem(name(fmt.Sprint(i % 4))); one != nil {
						one.Close()
					}
					sleep(3 * time.Second)
					if n := made.openItems(); n > c.peak {
						t.Fatalf("there are %d", n)
					}
				}
				if made.openItems() == 0 && c.peak > 0 {
					t.Error("there are none")
				}
			})
		})
	}
}

// TestPoolMakesRoom checks that a key that was requested long ago gives way.
func TestPoolMakesRoom(t *testing.T) {
	c := roomy
	c.Max = 1
	inPool(t, c, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		for _, after := range []time.Duration{c.Idle / 16, c.Idle / 4} {
			p.LeaseItem("old")
			sleep(after)
			p.LeaseItem("new")
			sleep(2 * time.Second)
			if gave := len(p.Idle("new")) == 1; gave != (after > c.Idle/8) || gave == (len(p.Idle("old")) == 1) {
				t.Errorf("asked for %v later: it gave way: %v", after, gave)
			}
		}
	})
}

// TestPoolKeepsOneOfEach checks that the second item of a key gives way to the first of another, and not the other
// way round.
func TestPoolKeepsOneOfEach(t *testing.T) {
	c := roomy
	c.Max = 2
	inPool(t, c, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		for range 2 {
			p.LeaseItem("a")
		}
		sleep(time.Minute)
		if n := len(p.Idle("a")); n != 2 {
			t.Fatalf("%d of the first stand ready, want 2", n)
		}
		for range 2 {
			p.LeaseItem("b")
		}
		sleep(time.Minute)
		if a, b := len(p.Idle("a")), len(p.Idle("b")); a != 1 || b != 1 {
			t.Errorf("%d and %d stand ready, want one of each", a, b)
		}
	})
}

// TestPoolGivesUp checks that keys without requests are dropped.
func TestPoolGivesUp(t *testing.T) {
	var tidied atomic.Int32
	c := roomy
	c.Tidy = func(time.Duration) bool { return tidied.Add(1) < 10 }
	inPool(t, c, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		p.LeaseItem("a")
		sleep(c.Idle / 2)
		if len(p.Idle("a")) != 1 {
			t.Error("given up early")
		}
		sleep(c.Idle)
		if n := tidied.Load(); made.openItems() > 0 || p.bucketCount() > 0 || n < 5 || n > 6 {
			t.Errorf("%d are left, in %d buckets; tidied %d times", made.openItems(), p.bucketCount(), n)
		}
		sleep(10 * c.Idle)
		if n := tidied.Load(); n != 10 {
			t.Errorf("tidied %d times, want until nothing is left", n)
		}
	})
}

// TestPoolLosesItems has items end by themselves, or be unusable when they are leased.
func TestPoolLosesItems(t *testing.T) {
	inPool(t, roomy, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		p.Prepare("a")
		first := made.saw().made[0]
		close(first.ends)
		synctest.Wait()
		if !first.closed.Load() || len(p.Idle("a")) != 0 {
			t.Error("what ended stands ready")
		}
		sleep(time.Second)
		if len(p.Idle("a")) != 1 {
			t.Error("none took its place")
		}
		second := made.saw().made[1]
		second.useful.Store(false)
		if one, why := p.LeaseItem("a"); one != nil || why == "" {
			t.Error("took what is of no use")
		}
		synctest.Wait()
		if !second.closed.Load() {
			t.Error("it was not closed")
		}
	})
}

// TestPoolTellsWhy checks that a failure is reported briefly, and tried again later.
func TestPoolTellsWhy(t *testing.T) {
	inPool(t, roomy, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		made.fails(errors.New("no\n" + strings.Repeat("x", 200)))
		failed := p.Prepare("a")
		if want := "no " + strings.Repeat("x", maxReason-3); failed != want {
			t.Errorf("got %q, want %q", failed, want)
		}
		if _, why := p.LeaseItem("a"); why != "no idle sandbox: "+failed {
			t.Errorf("why: %q", why)
		}
		made.fails(nil)
		sleep(retryDelay - time.Second)
		p.Fill()
		if made.saw().now > 0 {
			t.Error("tried again early")
		}
		sleep(2 * time.Second)
		p.Fill()
		sleep(time.Minute)
		for one, _ := p.LeaseItem("a"); one != nil; one, _ = p.LeaseItem("a") {
			one.Close()
		}
		if _, why := p.LeaseItem("a"); why != "no idle sandbox" {
			t.Errorf("why: %q", why)
		}
	})
}

// TestPoolForgets has callers request many keys with many reasons: the pool's memory of them is bounded.
func TestPoolForgets(t *testing.T) {
	c := roomy
	c.Max = 0
	inPool(t, c, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		const asked = 3 * maxKeys
		for i := range asked {
			sleep(1)
			_, why := p.LeaseItem(name(fmt.Sprint("a", i)))
			p.Record(fmt.Sprint(i), int64(i), why)
			p.Record("a", 1, fmt.Sprint("reason ", i))
		}
		if n := p.bucketCount(); n != maxKeys {
			t.Errorf("%d buckets", n)
		}
		p.mu.Lock()
		if p.buckets[name(fmt.Sprint("a", asked-1))] == nil {
			t.Error("the last is forgotten")
		}
		p.mu.Unlock()
		misses := int64(0)
		list := p.List()
		for _, one := range list {
			misses += one.Misses
			if len(one.Cold) > asked/2 {
				t.Errorf("%d reasons", len(one.Cold))
			}
		}
		if len(list) > backends.MaxKinds+1 || misses != 2*asked {
			t.Errorf("%d kinds with %d misses, want %d", len(list), misses, 2*asked)
		}
	})
}

// TestPoolOnce checks that Prepare makes one item, that no more are made, and that Clear ends it.
func TestPoolOnce(t *testing.T) {
	c := roomy
	c.Once = true
	inPool(t, c, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		go p.Prepare("a")
		synctest.Wait()
		p.Prepare("a")
		p.Prepare("a")
		one, why := p.LeaseItem("a")
		if one == nil {
			t.Fatal(why)
		}
		p.Record("a", 1, "")
		p.Missed("a", 1, "it ended")
		one.Close()
		p.Fill()
		p.Prepare("b")
		p.Clear()
		sleep(time.Hour)
		if n := len(made.saw().made); n != 2 || made.openItems() > 0 {
			t.Errorf("%d were made, %d are left", n, made.openItems())
		}
		if list := p.List(); len(list) != 1 || list[0].Hits != 0 || list[0].Misses != 1 {
			t.Errorf("%+v", list)
		}
	})
}

// TestPoolClosed closes a pool with idle items and one in the making.
func TestPoolClosed(t *testing.T) {
	inPool(t, roomy, func(t *testing.T, made *plant, p *Pool[name, *item]) {
		p.Prepare("a")
		for range 4 {
			p.LeaseItem("b")
		}
		sleep(refillDelay + time.Millisecond)
		p.Close()
		if n := len(made.saw().made); made.openItems() > 0 || n != 2 {
			t.Errorf("%d of %d are left", made.openItems(), n)
		}
		if one, why := p.LeaseItem("a"); one != nil || why != "" {
			t.Errorf("after the end: %v %q", one, why)
		}
	})
}
