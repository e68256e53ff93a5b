package vault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Each spelling that step follows from the first byte on must be begun by the scan: a prefix that is
// not in the table would be a secret that shows.
func TestEachSpellingBegins(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var values [][]byte
	for _, v := range tokens() {
		values = append(values, []byte(v))
	}
	slices.SortFunc(values, slices.Compare)
	m := newMatcher(values, nil)
	m.prepare()
	for range 50_000 {
		group := r.IntN(len(m.patterns))
		p := &m.patterns[group]
		if p.radix != 0 || p.encoding.separated() {
			continue // see TestEachListGap
		}
		text := walk(r, p, group)
		if text == nil {
			continue
		}
		s := scan{matcher: m}
		s.feed(text)
		if len(s.found) == 0 && !slices.ContainsFunc(s.live, func(t thread) bool { return t.from == 0 }) {
			t.Errorf("%q in way %d is not begun", text, p.encoding)
		}
	}
}

// A list begins with each of the gaps that are listed, whatever stands between the rest.
func TestEachListGap(t *testing.T) {
	const value = "k3y-Zq9_wT5x"
	l := lease(t, value)
	for format, mark := range map[string]string{"%c": "-", "%02x": "0x", "%02X": "0x", "%d": "-", "%o": "0o", "%03o": "0o", "%b": "0b", "%08b": "0b"} {
		for _, gap := range listGaps {
			if strings.Contains(gap, "0") && !strings.Contains(gap, mark) {
				continue
			}
			for _, then := range []string{gap, ", "} {
				if format == "%c" && then != gap {
					continue // between the first three characters, the same must stand
				}
				text := fmt.Sprintf(format, value[0]) + gap
				for i := 1; i < len(value); i++ {
					text += fmt.Sprintf(format, value[i])
					if i < len(value)-1 {
						text += then
					}
				}
				// A zero that begins the first number stays.
				if got := l.Redact(text + "~"); got != Mark+"~" && got != "0"+Mark+"~" {
					t.Errorf("%s with %q and %q: %q leaves %q", format, gap, then, text, got)
				}
			}
		}
	}
}

// walk returns text that spells the first symbols of a word.
func walk(r *rand.Rand, p *patterns, group int) (text []byte) {
	word := int32(r.IntN(len(p.words)))
	at := []thread{{group: uint8(group), point: point{lo: word, hi: word + 1}}}
	for range 60 {
		var next [256]steps
		var bytes []byte
		for b := range 256 {
			for _, t := range at {
				p.step(&next[b], t, byte(b))
			}
			if len(next[b].threads) > 0 {
				bytes = append(bytes, byte(b))
			}
		}
		if len(bytes) == 0 {
			return nil
		}
		b := bytes[r.IntN(len(bytes))]
		text, at = append(text, b), next[b].threads
		if slices.ContainsFunc(at, func(t thread) bool { return t.depth > window }) {
			return text
		}
	}
	return nil
}

// What a lease was looking for must not be in the filters that the next one gets.
func TestFiltersComeBackEmpty(t *testing.T) {
	for range 20 {
		l := newLease([]secret{{name: "A", value: []byte("correct-horse-battery-9")}})
		l.Redact("text")
		m := l.inner().matcher
		if *m.prefixes.first == (filter{}) {
			t.Fatal("the filter of a lease is empty")
		}
		l.Close()
		first, second := filters.Get().(*filter), filters.Get().(*filter)
		if *first != (filter{}) || *second != (filter{}) {
			t.Fatal("a filter has hashes of another lease")
		}
		filters.Put(first)
		filters.Put(second)
	}
}
