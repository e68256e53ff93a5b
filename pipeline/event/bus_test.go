package event

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	names := Names()
	if len(names) != 14 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != 14 {
		t.Errorf("%d names, want 14 different ones: %v", len(names), names)
	}
	for _, name := range names {
		if !regexp.MustCompile(`^[a-z]+\.[a-z]+$`).MatchString(name) {
			t.Errorf("%q is not noun.verb", name)
		}
	}
}

// read takes the events that are there at the moment.
func read(ch <-chan Event) (names []string) {
	for {
		select {
		case e, ok := <-ch:
			if !ok {
				return names
			}
			names = append(names, e.Name)
		default:
			return names
		}
	}
}

func TestNamespaces(t *testing.T) {
	b := NewBus()
	defer b.Close()
	one, _ := b.Subscribe("one", 10)
	two, _ := b.Subscribe("two", 10)
	none, _ := b.Subscribe("", 10)
	all, _ := b.Subscribe(All, 10)
	for _, e := range []Event{{Name: "a", Namespace: "one"}, {Name: "b", Namespace: "two"}, {Name: "c"}, {Name: "d", Namespace: "one"}} {
		b.Publish(e)
	}
	for _, tt := range []struct {
		name string
		ch   <-chan Event
		want []string
	}{
		{"one", one, []string{"a", "d"}}, {"two", two, []string{"b"}},
		{"no namespace is not all", none, []string{"c"}}, {"all", all, []string{"a", "b", "c", "d"}},
	} {
		if got := read(tt.ch); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTime(t *testing.T) {
	b := NewBus()
	ch, _ := b.Subscribe(All, 2)
	then, began := time.Unix(1, 0), time.Now()
	b.Publish(Event{})
	b.Publish(Event{Time: then})
	if e := <-ch; e.Time.Before(began) || e.Time.After(time.Now()) {
		t.Errorf("time %v, want now", e.Time)
	}
	if e := <-ch; !e.Time.Equal(then) {
		t.Errorf("time %v, want %v", e.Time, then)
	}
}

// TestDataIsACopy changes published data while it is being read. The race detector watches.
func TestDataIsACopy(t *testing.T) {
	b := NewBus()
	ch, cancel := b.Subscribe(All, 1)
	defer cancel()
	data := map[string]any{"n": 1}
	b.Publish(Event{Data: data})
	data["n"] = 2
	if got := (<-ch).Data["n"]; got != 1 {
		t.Errorf("got %v, want 1", got)
	}
}

// TestNeverBlocks has a listener that never reads.
func TestNeverBlocks(t *testing.T) {
	for _, buffer := range []int{-1, 0, 1, 7, 1 << 62} {
		b := NewBus()
		dead, _, _ := b.Listen(Filter{Namespace: All}, buffer, 0)
		alive, _, _ := b.Listen(Filter{Namespace: All}, maxBuffer, 0)
		const n = maxBuffer + 10
		for range n {
			b.Publish(Event{}) // hangs if it waits for a listener
		}
		for _, s := range []*Subscription{dead, alive} {
			if waiting := len(s.events); waiting != cap(s.events) || s.Missed() != uint64(n-waiting) {
				t.Errorf("buffer %d: %d waiting, %d missed, want %d", buffer, waiting, s.Missed(), n-waiting)
			}
		}
		if got := cap(dead.events); got != min(max(buffer, 1), maxBuffer) {
			t.Errorf("buffer %d: room for %d", buffer, got)
		}
	}
}

func TestCancel(t *testing.T) {
	b := NewBus()
	ch, cancel := b.Subscribe("a", 2)
	other, _ := b.Subscribe("a", 2)
	b.Publish(Event{Name: "before", Namespace: "a"})
	cancel()
	cancel()
	b.Publish(Event{Name: "after", Namespace: "a"})
	if got := read(ch); !slices.Equal(got, []string{"before"}) {
		t.Errorf("got %v, want what was published before", got)
	}
	if _, open := <-ch; open {
		t.Error("the channel is open")
	}
	if got := read(other); len(got) != 2 {
		t.Errorf("another listener got %v, want both", got)
	}
	b.Close()
	cancel()
	b.Close()
	if _, open := <-other; open {
		t.Error("Close left a channel open")
	}
	b.Publish(Event{Namespace: "a"})
	late, cancel := b.Subscribe("a", 1)
	cancel()
	if _, open := <-late; open {
		t.Error("a subscription after Close is open")
	}
}

func TestNilBus(t *testing.T) {
	var b *Bus
	b.Publish(Event{})
	ch, cancel := b.Subscribe(All, 1)
	cancel()
	if _, open := <-ch; open {
		t.Error("a nil bus has something to say")
	}
	b.Close()
}

// TestOrder wants each publisher's events in its own order, also with others at work.
func TestOrder(t *testing.T) {
	b := NewBus()
	ch, _ := b.Subscribe(All, maxBuffer)
	var publishers sync.WaitGroup
	for p := range 4 {
		publishers.Go(func() {
			for i := range 1000 {
				b.Publish(Event{Run: fmt.Sprint(p), Data: map[string]any{"i": i}})
			}
		})
	}
	publishers.Wait()
	b.Close()
	next := map[string]int{}
	for e := range ch {
		if e.Data["i"] != next[e.Run] {
			t.Fatalf("publisher %s: got %v, want %d", e.Run, e.Data["i"], next[e.Run])
		}
		next[e.Run]++
	}
	if len(next) != 4 || next["0"] != 1000 {
		t.Errorf("got %v", next)
	}
}

// TestEverythingAtOnce publishes, subscribes, cancels and closes from many goroutines. A send on a
// closed channel would panic, and a lost wake-up would hang.
func TestEverythingAtOnce(t *testing.T) {
	for range 20 {
		b := NewBus()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				data := map[string]any{"a": 1}
				for i := range 500 {
					data["a"] = i
					b.Publish(Event{Name: ExecutionStarted, Namespace: "a", Data: data})
				}
			})
			all.Go(func() {
				for i := range 100 {
					ch, cancel := b.Subscribe([]string{"a", All}[i%2], i%3)
					go cancel()
					for e := range ch {
						_ = e.Data["a"]
					}
					cancel()
				}
			})
			all.Go(func() {
				for range 100 {
					runtime.Gosched()
				}
				b.Close()
			})
		}
		all.Wait()
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, listeners := range []int{0, 1, 100} {
		b.Run(fmt.Sprint(listeners), func(b *testing.B) {
			bus := NewBus()
			for range listeners {
				bus.Subscribe(All, 1)
			}
			e := Event{Name: ExecutionStarted, Data: map[string]any{"a": 1}}
			b.ReportAllocs()
			for b.Loop() {
				bus.Publish(e)
			}
		})
	}
}

// Subscribe is Listen without earlier events, for the events of one namespace (or [All]).
func (b *Bus) Subscribe(namespace string, buffer int) (events <-chan Event, cancel func()) {
	s, _, _ := b.Listen(Filter{Namespace: namespace}, buffer, 0)
	return s.Events(), s.Cancel
}
