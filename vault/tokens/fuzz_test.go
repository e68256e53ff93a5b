package tokens

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// FuzzPieces: the result does not depend on how a text is split.
func FuzzPieces(f *testing.F) {
	for seed := range uint64(40) {
		s := newSource(seed)
		all := samples(s)
		var b strings.Builder
		for range 6 {
			x := all[s.IntN(len(all))]
			text := x.before + x.text + x.after
			b.WriteString(text[:s.IntN(len(text)+1)] + s.random(s.IntN(4), " \n-_.:/=ns"))
			b.WriteString(text[s.IntN(len(text)):] + s.random(s.IntN(2), " \n") + text)
		}
		f.Add(b.String(), seed)
		for _, text := range ordinary(s) {
			f.Add(text, seed)
		}
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		want, found := write(t, text, true, func() int { return len(text) })
		maxPiece := 1 + r.IntN(40)
		got, again := write(t, text, true, func() int { return r.IntN(maxPiece) })
		if got != want || !slices.Equal(found, again) {
			t.Fatalf("%q\n whole  %q %q\n pieces %q %q", text, want, found, got, again)
		}
		if unmasked, kinds := write(t, text, false, func() int { return r.IntN(maxPiece) }); unmasked != text || !slices.Equal(kinds, found) {
			t.Fatalf("%q without mask: %q %q, want %q", text, unmasked, kinds, found)
		}
		if marks := strings.Count(want, Mark) - strings.Count(text, Mark); len(found) > 0 && marks <= 0 && !strings.Contains(text, "*") {
			t.Fatalf("%q: %q were found, and not taken out of %q", text, found, want)
		}
	})
}

// TestHeldBack: text that can't be a token is not held back, and other text for a few kilobytes at most.
func TestHeldBack(t *testing.T) {
	for _, text := range []string{"Name: ", "Continue? [y/N] ", ">>> ", "loading\r", "line\n", "50%"} {
		var b strings.Builder
		w := NewWriter(&b, true, func(string) {})
		io.WriteString(w, text)
		if b.String() != text {
			t.Errorf("%q: only %q is shown", text, b.String())
		}
	}
	s := newSource(1)
	for _, begin := range []string{"eyJhbGciOi", "-----BEGIN X PRIVATE KEY-----\nProc-Type: ", "a://b:", "xoxb-", "pypi-AgEIcHlwaS5vcmc",
		"linear"} {
		in, out := 0, strings.Builder{}
		w := NewWriter(&out, true, func(string) {})
		io.WriteString(w, begin)
		for in = len(begin); in < 20_000 && out.Len() == 0; in += 10 {
			io.WriteString(w, s.random(10, "aaaaaaaaaab"))
		}
		if in > 4096 {
			t.Errorf("%d bytes are held after %s", in, begin)
		}
	}
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

// TestFailing: a failing writer returns its error from then on.
func TestFailing(t *testing.T) {
	for _, mask := range []bool{false, true} {
		w := NewWriter(&failing{1}, mask, func(string) {})
		for i, want := range []string{"", "disk full", "disk full"} {
			n, err := io.WriteString(w, "text\n")
			if got := ""; err != nil {
				got = err.Error()
				if got != want || n != 0 {
					t.Errorf("mask %v, call %d: got %d, %v", mask, i, n, err)
				}
			} else if want != "" || n != 5 {
				t.Errorf("mask %v, call %d: got %d, no error", mask, i, n)
			}
		}
		if err := w.Close(); err == nil || err.Error() != "disk full" {
			t.Errorf("mask %v: Close says %v", mask, err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("a second Close says %v", err)
		}
		if _, err := io.WriteString(w, "x"); err != io.ErrClosedPipe {
			t.Errorf("after Close: %v", err)
		}
	}
}
