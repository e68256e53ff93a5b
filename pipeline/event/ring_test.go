package event

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func numbers(list []Event) (all []uint64) {
	for _, e := range list {
		all = append(all, e.Seq)
	}
	return all
}

func TestListenRemembers(t *testing.T) {
	b := NewBus()
	for i := range 6 {
		b.Publish(Event{Name: []string{EgressDenied, VaultAccessed}[i%2], Namespace: []string{"a", "b"}[i/3]})
	}
	for _, tt := range []struct {
		name  string
		f     Filter
		since uint64
		want  []uint64
	}{
		{"all", Filter{Namespace: All}, 0, []uint64{1, 2, 3, 4, 5, 6}},
		{"since", Filter{Namespace: All}, 4, []uint64{5, 6}},
		{"namespace", Filter{Namespace: "b"}, 0, []uint64{4, 5, 6}},
		{"kind", Filter{Namespace: "a", Kinds: []string{VaultAccessed}}, 0, []uint64{2}},
		{"no kind", Filter{Namespace: All, Kinds: []string{}}, 0, nil},
		{"nothing new", Filter{Namespace: All}, 6, nil},
		{"another bus's number", Filter{Namespace: "b"}, 7, []uint64{4, 5, 6}},
	} {
		s, before, forgotten := b.Listen(tt.f, 1, tt.since)
		s.Cancel()
		if got := numbers(before); !slices.Equal(got, tt.want) || forgotten != 0 {
			t.Errorf("%s: got %v, want %v; %d forgotten", tt.name, got, tt.want, forgotten)
		}
	}
	b.Close()
	s, before, _ := b.Listen(Filter{Namespace: All}, 1, 5)
	if _, open := <-s.Events(); open || len(before) != 1 {
		t.Errorf("after Close: open %v, %v", open, before)
	}
}

func TestRingIsBounded(t *testing.T) {
	b := NewBus()
	for range ringLength + 10 {
		b.Publish(Event{})
	}
	_, before, forgotten := b.Listen(Filter{Namespace: All}, 1, 3)
	if len(before) != ringLength || before[0].Seq != 11 || forgotten != 7 {
		t.Errorf("%d from %d on, %d forgotten", len(before), before[0].Seq, forgotten)
	}
	for range ringLength {
		b.Publish(Event{Data: map[string]any{"x": strings.Repeat("x", maxSize/2)}})
	}
	_, before, _ = b.Listen(Filter{Namespace: All}, 1, 0)
	if n := len(before); n < ringBytes/maxSize || n > 2*ringBytes/maxSize || b.last.bytes > ringBytes {
		t.Errorf("%d large ones are remembered, %d bytes", n, b.last.bytes)
	}
}

// TestNoneTwiceAndNoneLost joins while others publish.
func TestNoneTwiceAndNoneLost(t *testing.T) {
	b := NewBus()
	var publishers, listeners sync.WaitGroup
	for range 2 {
		publishers.Go(func() {
			for range 400 {
				b.Publish(Event{})
			}
		})
	}
	for range 20 {
		listeners.Go(func() {
			s, before, _ := b.Listen(Filter{Namespace: All}, 1000, 0)
			got := numbers(before)
			for e := range s.Events() {
				got = append(got, e.Seq)
			}
			for i, n := range got {
				if n != uint64(i+1) {
					t.Errorf("number %d at place %d", n, i)
					return
				}
			}
			if len(got) != 800 {
				t.Errorf("got %d, want 800", len(got))
			}
		})
	}
	publishers.Wait()
	b.Close()
	listeners.Wait()
}

// TestMissed wants each to know of its own losses, and of no others.
func TestMissed(t *testing.T) {
	b := NewBus()
	slow, _, _ := b.Listen(Filter{Namespace: "a"}, 2, 0)
	picky, _, _ := b.Listen(Filter{Namespace: "a", Kinds: []string{EgressDenied}}, 2, 0)
	quick, _, _ := b.Listen(Filter{Namespace: All}, 10, 0)
	for _, e := range []Event{{Name: EgressDenied}, {Name: VaultAccessed}, {Name: VaultAccessed}, {Name: VaultAccessed},
		{Name: "x", Namespace: "b"}} {
		if e.Namespace == "" {
			e.Namespace = "a"
		}
		b.Publish(e)
	}
	if slow.Missed() != 2 || picky.Missed() != 0 || quick.Missed() != 0 {
		t.Errorf("missed %d, %d, %d", slow.Missed(), picky.Missed(), quick.Missed())
	}
}

func TestEventsAreBounded(t *testing.T) {
	type file struct{ Name, Sum string }
	files := make([]file, 1000)
	for i := range files {
		files[i] = file{fmt.Sprint("file", i), strings.Repeat("0", 64)}
	}
	loop := map[string]any{}
	loop["loop"] = loop
	many := map[string]any{}
	for i := range 5000 {
		many[fmt.Sprint("key", i)] = i
	}
	for _, tt := range []struct {
		name string
		data map[string]any
		stay []string
		gone []string
	}{
		{"small", map[string]any{"a": 1, "b": []string{"x"}}, []string{"a", "b"}, nil},
		{"a list", map[string]any{"a": 1, "files": files}, []string{"a", "left_out"}, []string{"files"}},
		{"text", map[string]any{"a": "x", "b": strings.Repeat("x", maxSize)}, []string{"a", "left_out"}, []string{"b"}},
		{"bytes", map[string]any{"a": "x", "b": make([]byte, 1<<20)}, []string{"a", "left_out"}, []string{"b"}},
		{"a long key", map[string]any{"a": "x", strings.Repeat("k", maxSize): 1}, []string{"a", "left_out"}, nil},
		{"no JSON", map[string]any{"a": "x", "b": func() {}}, []string{"a", "left_out"}, []string{"b"}},
		{"a loop", map[string]any{"a": "x", "b": loop}, []string{"a", "left_out"}, []string{"b"}},
		{"the largest only", map[string]any{"a": strings.Repeat("x", maxSize/2), "b": strings.Repeat("x", maxSize)}, []string{"a", "left_out"},
			[]string{"b"}},
		{"many", many, nil, nil},
	} {
		b := NewBus()
		b.Publish(Event{Data: tt.data})
		e := b.last.events[0]
		var keys []string
		for k := range e.Data {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if tt.stay != nil && !slices.Equal(keys, tt.stay) {
			t.Errorf("%s: keys %.100q, want %q", tt.name, keys, tt.stay)
		}
		if gone, _ := e.Data[leftOut].([]string); tt.stay != nil && !slices.Equal(gone, tt.gone) {
			t.Errorf("%s: left out %q, want %q", tt.name, gone, tt.gone)
		}
		if text, err := json.Marshal(e); err != nil || len(text) > 2*maxSize || b.last.bytes > 2*maxSize {
			t.Errorf("%s: %d bytes of JSON, %d counted, %v", tt.name, len(text), b.last.bytes, err)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := CheckRows(Rows()); err != nil {
		t.Error(err)
	}
	if err := CheckRows([]string{QueueBackpressure}); err == nil || !strings.Contains(err.Error(), "execution.refused") {
		t.Errorf("an event that is not a row: %v", err)
	}
	if err := Check(Names()); err != nil {
		t.Error(err)
	}
	for kind, want := range map[string]string{
		"egress.dennied": `(did you mean "egress.denied"?)`, "execution": `"execution.started"`, "denied": `"egress.denied"`,
		"Vault.Access": `"vault.accessed"`, "": "choose from: execution.started", "*": "choose from", "zzzzzzzzzz": "choose from",
		strings.Repeat("x", 1<<20): "choose from",
	} {
		if err := Check([]string{EgressDenied, kind}); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%.40q: got %v, want %s", kind, err, want)
		}
	}
	if Names()[0] = "x"; names[0] != ExecutionStarted {
		t.Error("Names hands out its own list")
	}
}

// BenchmarkPublishEnd publishes the event of a run's end, with nobody listening.
func BenchmarkPublishEnd(b *testing.B) {
	type decision struct {
		Name, Reason string
		Port         int
	}
	data := map[string]any{
		"ended": "ok", "exit_code": 0, "wall_ms": 1.5, "cpu_ms": 2.5, "peak_memory": int64(1 << 20), "artifacts": 2,
		"layers": []string{"user", "mount", "pid", "net", "ipc", "uts", "landlock", "seccomp", "caps", "nnp"},
		"egress": []decision{{"a.example", "allowed by a.example", 443}}, "code_sha256": strings.Repeat("0", 64), "name": "script.py",
		"language": "python", "backend": "process", "profile": "hardened", "limits": map[string]any{"ram": 1, "wall": 2.0, "disk": 3},
		"timings_us": map[string]int64{"validate": 1, "queue": 2, "vault": 3, "egress": 4, "start": 5, "exec": 6, "sign": 7},
	}
	bus := NewBus()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			bus.Publish(Event{Name: ExecutionCompleted, Data: data})
		}
	})
}
