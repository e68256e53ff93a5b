package vault

import (
	"io"
	"strings"
	"testing"
)

// TestLeases has secrets of two leases in one text: every method finds both.
func TestLeases(t *testing.T) {
	first, second := "first-"+"of-two-secrets", "second-"+"of-two-secrets"
	all := Leases{
		newLease([]secret{{name: "A", value: []byte(first)}}, &pages{}),
		newLease([]secret{{name: "B", value: []byte(second)}}, &pages{}),
	}
	text := "a " + second + " b " + first + " c"
	want := "a " + Mark + " b " + Mark + " c"
	if got := all.Redact(text); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for size := 1; size < len(text); size++ {
		var out strings.Builder
		w := all.Writer(&out)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if err := w.Close(); err != nil || out.String() != want {
			t.Fatalf("in pieces of %d: got %q, %v", size, out.String(), err)
		}
	}
	for _, s := range []string{first, second} {
		if got := all.RedactCut("x " + s[:9]); got != "x " {
			t.Errorf("the beginning of %q came out as %q", s, got)
		}
		if yes, err := all.ContainsSecret(strings.NewReader("x" + s)); !yes || err != nil {
			t.Errorf("%q was not found: %v", s, err)
		}
	}
	if yes, err := all.ContainsSecret(strings.NewReader("nothing")); yes || err != nil {
		t.Errorf("found %v, %v", yes, err)
	}
	if got := all.Env([]string{"B"}); len(got) != 1 || got[0] != "B="+second || !all.Has("A") || all.Has("C") {
		t.Errorf("got %q", got)
	}
	all.Close()
	if _, err := all.ContainsSecret(strings.NewReader(text)); err == nil {
		t.Error("closed leases search")
	}
	var none Leases
	if got := none.Redact(text); got != text || none.RedactCut(text) != text {
		t.Errorf("got %q", got)
	}
}

// ContainsSecret calls Leases.ContainsSecret for one lease.
func (l *Lease) ContainsSecret(r io.Reader) (bool, error) { return Leases{l}.ContainsSecret(r) }
