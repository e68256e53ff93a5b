package rpc

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTasksAreBounded: the number of tasks and the bytes of their responses are bounded.
func TestTasksAreBounded(t *testing.T) {
	var s tasks
	add := func(id string) *task {
		one := &task{id: id, began: time.Now(), state: "working", done: make(chan struct{})}
		if !s.add(one) {
			return nil
		}
		return one
	}
	for i := range maxTasks {
		if add(fmt.Sprint(i)) == nil {
			t.Fatalf("%d are too many", i)
		}
	}
	if add("one more") != nil {
		t.Error("a task that runs was forgotten, or there are too many")
	}
	s.finish(s.lookup("7"), []byte(`{"result":{}}`))
	if add("one more") == nil || s.lookup("7") != nil || s.lookup("8") == nil {
		t.Error("the one that has ended is not the one that is forgotten")
	}
	big := []byte(`{"result":"` + strings.Repeat("x", maxTaskBytes/4) + `"}`)
	for i := range 5 {
		s.finish(s.lookup(fmt.Sprint(100+i)), big)
	}
	if s.lookup("100") != nil || s.lookup("104") == nil || s.bytes > maxTaskBytes {
		t.Errorf("%d bytes of answers are kept", s.bytes)
	}
	late := s.lookup("104")
	late.began = late.began.Add(-taskTTL)
	if s.lookup("104") != nil {
		t.Error("a task is known when its time is over")
	}
}
