package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// exported returns the lines of a log with n rows, which were written at the times that at returns.
func exported(t *testing.T, name string, n int, at func(i int) time.Time) []string {
	t.Helper()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range n {
		l.now = func() time.Time { return at(i) }
		if _, err := l.Append(t.Context(), Entry{Kind: "a.b", Run: fmt.Sprint(name, i), Namespace: "n", Data: map[string]any{"text": "<&> ünï"}}); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for r, err := range l.Rows(t.Context(), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

// merged returns the runs of what Merge yields, and its errors.
func merged(all map[string][]string, some bool, names ...string) (runs []string, errs []error) {
	var exports []Exported
	for _, name := range names {
		exports = append(exports, Exported{name, bytes.NewBufferString(strings.Join(all[name], "\n")), some})
	}
	for m, err := range Merge(exports) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		runs = append(runs, m.Run)
	}
	return runs, errs
}

func TestMerge(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := exported(t, "a", 4, func(i int) time.Time { return begin.Add(time.Duration(2*i) * time.Second) })
	b := exported(t, "b", 4, func(i int) time.Time { return begin.Add(time.Duration(2*i+1) * time.Second) })
	all := map[string][]string{"a": a, "b": b, "a again": a[1:], "none": nil, "blank": {"", a[0], ""}}
	edited := append([]string{}, b...)
	edited[2] = strings.Replace(edited[2], "b2", "x2", 1)
	all["edited"] = edited
	all["cut"] = append(append([]string{}, b[:1]...), b[2:]...)
	replaced := exported(t, "c", 4, func(i int) time.Time { return begin.Add(time.Duration(2*i+1) * time.Second) })
	all["replaced"] = append(append([]string{}, b[:2]...), replaced[2:]...)
	all["text"] = []string{b[0], "no JSON"}
	first := strings.Replace(b[0], strings.Repeat("0", 64), strings.Repeat("1", 64), 1)
	all["first"] = []string{first}
	for _, tt := range []struct {
		names string
		some  bool
		want  string
		bad   int64 // row of a BadExport; -1 another error
	}{
		{"a,b", false, "a0 b0 a1 b1 a2 b2 a3 b3", 0},
		{"b,a", false, "a0 b0 a1 b1 a2 b2 a3 b3", 0},
		{"a,a again,b,a", false, "a0 b0 a1 b1 a2 b2 a3 b3", 0},
		{"none,blank", false, "a0", 0},
		{"a,edited", false, "a0 b0 a1 b1 a2 a3", 3},
		{"cut", false, "b0", 2},
		{"cut,a", true, "a0 b0 a1 a2 b2 a3 b3", 0},
		{"replaced", false, "b0 b1", 2},
		{"replaced,a", true, "a0 b0 a1 b1 a2 a3", 2},
		{"text,a", false, "a0 b0 a1 a2 a3", -1},
		{"first", false, "", 1},
	} {
		runs, errs := merged(all, tt.some, strings.Split(tt.names, ",")...)
		if got := strings.Join(runs, " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.names, got, tt.want)
		}
		if tt.bad == 0 && len(errs) == 0 {
			continue
		}
		if len(errs) != 1 {
			t.Errorf("%s: got errors %v", tt.names, errs)
			continue
		}
		bad, is := errors.AsType[*BadExport](errs[0])
		if is != (tt.bad > 0) || is && bad.Seq != tt.bad {
			t.Errorf("%s: got %v, want row %d", tt.names, errs[0], tt.bad)
		}
	}
}

// TestMergeClock keeps the order of one log whose clock went back.
func TestMergeClock(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := exported(t, "a", 3, func(i int) time.Time { return begin.Add(-time.Duration(i) * time.Minute) })
	runs, errs := merged(map[string][]string{"a": a}, false, "a", "a")
	if got := strings.Join(runs, " "); got != "a0 a1 a2" || len(errs) > 0 {
		t.Errorf("got %s, %v", got, errs)
	}
}
