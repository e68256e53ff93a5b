package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
)

func seqs(rows []Row) (s string) {
	for _, r := range rows {
		s += fmt.Sprint(" ", r.Seq)
	}
	return strings.TrimSpace(s)
}

// manyKinds are more than SQLite can merge.
var manyKinds = func() (kinds []string) {
	for i := range 1000 {
		kinds = append(kinds, fmt.Sprint("k", i+2))
	}
	return kinds
}()

func TestRows(t *testing.T) {
	l := openLog(t, logPath(t))
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seq int) time.Time { return start.Add(time.Duration(seq) * time.Minute) }
	for i := range 12 { // row n is written at minute n, by namespaces a and b in turn, kinds k0 to k2
		l.now = func() time.Time { return at(i + 1) }
		e := Entry{Kind: fmt.Sprint("k", (i+1)%3), Run: fmt.Sprint("r", i/2), Namespace: string(rune('a' + i%2)),
			Data: map[string]any{"n": i + 1, "of": fmt.Sprintf("%%_%d'", i%4)}}
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		f    Filter
		want string
	}{
		{"all", Filter{}, "1 2 3 4 5 6 7 8 9 10 11 12"},
		{"namespace", Filter{Namespace: "b"}, "2 4 6 8 10 12"},
		{"unknown namespace", Filter{Namespace: "b' OR '1'='1"}, ""},
		{"namespaces", Filter{Namespaces: []string{"b", "c"}, Limit: 3}, "8 10 12"},
		{"namespaces and one of them", Filter{Namespaces: []string{"a", "b"}, Namespace: "a", After: 8}, "9 11"},
		{"namespaces and another one", Filter{Namespaces: []string{"a", "a"}, Namespace: "b"}, ""},
		{"no namespaces", Filter{Namespaces: []string{}}, ""},
		{"namespaces that are not SQL", Filter{Namespaces: []string{`b"]) OR 1`, "b')"}}, ""},
		{"namespaces and kinds", Filter{Namespaces: []string{"b"}, Kinds: []string{"k0", "k1"}}, "4 6 10 12"},
		{"run", Filter{Run: "r3"}, "7 8"},
		{"kind", Filter{Kinds: []string{"k1"}}, "1 4 7 10"},
		{"a run's kinds", Filter{Run: "r3", Kinds: []string{"k1", "k2"}}, "7 8"},
		{"the same kind twice", Filter{Kinds: []string{"k1", "k1", "k1"}, Limit: 2}, "7 10"},
		{"many kinds", Filter{Kinds: append(slices.Repeat([]string{"k1"}, 5), manyKinds...), Limit: 3}, "8 10 11"},
		{"kinds", Filter{Kinds: []string{"k1", "k2", "none"}}, "1 2 4 5 7 8 10 11"},
		{"since is inclusive", Filter{Since: at(10)}, "10 11 12"},
		{"until is exclusive", Filter{Until: at(3)}, "1 2"},
		{"since another zone", Filter{Since: at(12).In(time.FixedZone("", 3600))}, "12"},
		{"since long ago", Filter{Since: time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC)}, "1 2 3 4 5 6 7 8 9 10 11 12"},
		{"until far away", Filter{Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, "1 2 3 4 5 6 7 8 9 10 11 12"},
		{"since far away", Filter{Since: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, ""},
		{"limit is the newest", Filter{Limit: 3}, "10 11 12"},
		{"limit above all", Filter{Limit: 100}, "1 2 3 4 5 6 7 8 9 10 11 12"},
		{"limit of a filter", Filter{Limit: 2, Namespace: "a"}, "9 11"},
		{"limit of nothing", Filter{Limit: 2, Namespace: "c"}, ""},
		{"negative limit", Filter{Limit: -1, After: 11}, "12"},
		{"after", Filter{After: 9}, "10 11 12"},
		{"after the end", Filter{After: 12}, ""},
		{"after the largest number", Filter{After: math.MaxInt64}, ""},
		{"after the largest number, with limit", Filter{After: math.MaxInt64, Limit: 3}, ""},
		{"after and limit", Filter{After: 8, Limit: 2}, "11 12"},
		{"before", Filter{Before: 3}, "1 2"},
		{"before and limit", Filter{Before: 8, Limit: 2, Namespace: "a"}, "5 7"},
		{"before and after", Filter{Before: 8, After: 5}, "6 7"},
		{"before the first", Filter{Before: 1, Limit: 5}, ""},
		{"before with kinds", Filter{Before: 8, Kinds: []string{"k0", "k1"}, Limit: 3}, "4 6 7"},
		{"a text", Filter{Contains: []string{`"n":1`}}, "1 10 11 12"},
		{"a text that is not a pattern", Filter{Contains: []string{"%_2'"}}, "3 7 11"},
		{"texts", Filter{Contains: []string{"%_2'", `"n":1`}, Before: 12}, "11"},
		{"texts that are not there", Filter{Contains: []string{"%_2'", "none"}}, ""},
		{"everything", Filter{After: 1, Limit: 2, Namespace: "a", Kinds: []string{"k0", "k1"}, Since: at(2), Until: at(9)}, "3 7"},
	} {
		if got := seqs(collect(t, l, test.f)); got != test.want {
			t.Errorf("%s: got rows %s, want %s", test.name, got, test.want)
		}
	}
}

// TestRowsEnd: a forged row with the largest number must not make readers loop forever.
func TestRowsEnd(t *testing.T) {
	l := openLog(t, logPath(t))
	fill(t, l, 3)
	tamper(t, l.path, append(dropTriggers, "UPDATE audit SET seq = 9223372036854775807 WHERE seq = 3")...)
	if got := seqs(collect(t, l, Filter{})); got != "1 2 9223372036854775807" {
		t.Errorf("got rows %s", got)
	}
	_, err := l.Append(t.Context(), Entry{Kind: "k"})
	wantError(t, err, "tampered", "row 9223372036854775807")
}

// TestRowsWhileAppending: the loop over rows may append, stop, and span many pages; no lock is held meanwhile.
func TestRowsWhileAppending(t *testing.T) {
	l := openLog(t, logPath(t))
	big := map[string]string{"x": strings.Repeat("y", pack.MaxData/2)} // some 8 rows fill a page
	entries := make([]Entry, 30)
	for i := range entries {
		entries[i] = Entry{Kind: "k", Data: big}
	}
	if _, err := l.Append(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), make2500()...); err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range l.Rows(t.Context(), Filter{}) {
		if n++; err != nil || r.Seq != int64(n) {
			t.Fatal(n, r.Seq, err)
		}
		if n <= 10 {
			fill(t, l, 1)
		}
		if n == 20 {
			var busy, pages, done int
			err := l.active.Load().db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &done)
			if err != nil || busy != 0 {
				t.Errorf("the loop holds a read transaction: busy %d, %v", busy, err)
			}
		}
	}
	if n != 2540 {
		t.Errorf("got %d rows, want 2540", n)
	}
	for range l.Rows(t.Context(), Filter{}) {
		break
	}
	wantSound(t, l, 2540)
}

func make2500() []Entry {
	entries := make([]Entry, 2500)
	for i := range entries {
		entries[i].Kind = "k"
	}
	return entries
}

func TestRowsCancelled(t *testing.T) {
	l := openLog(t, logPath(t))
	if _, err := l.Append(t.Context(), make2500()...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range l.Rows(ctx, Filter{}) {
		if n++; n == 10 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || n > pageRows+1 {
		t.Errorf("got %d rows and then %v, want context canceled soon after 10", n, last)
	}
}

func TestFollow(t *testing.T) {
	path := logPath(t)
	l, other := openLog(t, path), openLog(t, path) // the appending log need not be the following one
	fill(t, other, 5)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	add := func(kind string) {
		t.Helper()
		if _, err := other.Append(t.Context(), Entry{Kind: kind, Run: kind}, Entry{Kind: "other"}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for r, err := range l.RowsAndNew(ctx, Filter{Limit: 2, Kinds: []string{"execution.completed", "a", "b"}}, time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Run)
		switch r.Run {
		case "r5":
			add("a")
		case "a":
			add("b")
		case "b":
			cancel()
		}
	}
	if diff := cmp.Diff([]string{"r4", "r5", "a", "b"}, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	for range other.RowsAndNew(t.Context(), Filter{}, time.Hour) { // the loop may stop it, too
		break
	}
}

// BenchmarkFollow measures one poll of an unchanged log.
func BenchmarkFollow(b *testing.B) {
	l := openLog(b, logPath(b))
	fill(b, l, 100)
	f := Filter{After: 100}
	for b.Loop() {
		if more, err := l.catchUp(b.Context(), &f, nil); !more || err != nil {
			b.Fatal(more, err)
		}
	}
}
