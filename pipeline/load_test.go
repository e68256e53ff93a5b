package pipeline

import (
	"context"
	"slices"
	"testing"
)

func TestLoad(t *testing.T) {
	q := NewQueue(3, 5)
	enter := func(namespace string, weight int) func() {
		t.Helper()
		leave, err := q.Enter(t.Context(), namespace, weight, nil)
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
			_, err := q.Enter(waiting, namespace, 1, func(n int) { waits <- n })
			came <- err
		}()
		<-waits
	}
	want := []Line{{"a", 2, 1}, {"b", 1, 0}, {"c", 0, 1}}
	if got := q.detail(); got.Slots != 3 || got.Running != 3 || got.Waiting != 2 || got.Room != 5 || !slices.Equal(got.Namespaces, want) {
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
	if got := q.detail(); got.Running != 1 || got.Waiting != 0 || len(got.Namespaces) != 1 || got.Namespaces[0].Running != 1 {
		t.Errorf("at the end there is %+v", got)
	}
}
