package pipeline

import (
	"context"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func TestLoad(t *testing.T) {
	q := NewQueue(3, 5)
	enter := func(namespace string, weight int) func() {
		t.Helper()
		leave, err := q.Acquire(t.Context(), namespace, weight, nil)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	a, b := enter("a", 2), enter("b", 1)
	waiting, cancel := context.WithCancel(t.Context())
	came := make(chan error, 2)
	waits := make(chan int, 2)
	for _, namespace := range []string{"a", "c"} {
		go func() {
			_, err := q.Acquire(waiting, namespace, 1, func(n int) { waits <- n })
			came <- err
		}()
		<-waits
	}
	want := []NamespaceLoad{{"a", 2, 1}, {"b", 1, 0}, {"c", 0, 1}}
	if got := q.load(); got.Slots != 3 || got.Running != 3 || got.Waiting != 2 || got.Room != 5 || !slices.Equal(got.Namespaces, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
	b()
	if err := <-came; err != nil {
		t.Error(err)
	}
	cancel()
	<-came
	a()
	a() // a second time gives nothing back
	if got := q.load(); got.Running != 1 || got.Waiting != 0 || len(got.Namespaces) != 1 || got.Namespaces[0].Running != 1 {
		t.Errorf("at the end there is %+v", got)
	}
}

func TestFree(t *testing.T) {
	p := New(Config{Queue: NewQueue(3, 5), Limits: Bounds{Limits: backends.Limits{CPU: 2}}})
	defer p.Close()
	for _, tt := range []struct {
		taken int
		cores float64 // 0 is the default
		want  bool
	}{{0, 0, true}, {0, 9, true}, {1, 0, true}, {1, 2.5, false}, {2, 1, true}, {2, 0, false}, {3, 0.1, false}} {
		leave := func() {}
		if tt.taken > 0 {
			var err error
			if leave, err = p.Config.Queue.Acquire(t.Context(), "a", tt.taken, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.HasFreeSlots(backends.Limits{CPU: tt.cores}); got != tt.want {
			t.Errorf("%d taken, %v cores: got %v", tt.taken, tt.cores, got)
		}
		leave()
	}
}
