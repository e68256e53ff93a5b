package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxKeys is the maximum number of keys of a counter. Programs choose names, and could choose a new one each time.
const maxKeys = 5000

// counter counts events by key. Events beyond the first maxKeys keys are counted together.
type counter[K comparable] struct {
	of    map[K]*count
	other count
}

// count is the number of events of one key, and their sums.
type count struct {
	N              int64
	Denied         int64
	Connections    int64
	Sent, Received int64 // bytes
	First, Last    time.Time
	Why            string // the last time
}

func (t *counter[K]) countOf(key K, when time.Time) *count {
	c := t.of[key]
	switch {
	case c != nil:
	case len(t.of) >= maxKeys:
		c = &t.other
	default:
		if t.of == nil {
			t.of = map[K]*count{}
		}
		c = &count{First: when}
		t.of[key] = c
	}
	c.Last = when
	return c
}

// ranked is a key of a counter, with its share of the largest count in percent.
type ranked struct {
	Key any
	count
	Share float64
}

// list is the top of a counter in some order.
type list struct {
	Lines []ranked
	Left  int   // keys that are not listed
	Rest  int64 // events beyond maxKeys
}

// top returns the max keys with the largest values of by, without zero values.
func (t *counter[K]) top(max int, by func(count) int64) list {
	l := list{Rest: by(t.other)}
	for key, c := range t.of {
		if by(*c) > 0 {
			l.Lines = append(l.Lines, ranked{Key: key, count: *c})
		}
	}
	l.rank(max, by)
	return l
}

// rank sorts the lines, keeps the first max, and sets their shares. It is not a method of counter, so that it is
// compiled once.
func (l *list) rank(max int, by func(count) int64) {
	slices.SortFunc(l.Lines, func(a, b ranked) int {
		if c := cmp.Compare(by(b.count), by(a.count)); c != 0 {
			return c
		}
		return cmp.Compare(fmt.Sprint(a.Key), fmt.Sprint(b.Key)) // for a stable page
	})
	if len(l.Lines) > max {
		l.Left, l.Lines = len(l.Lines)-max, l.Lines[:max]
	}
	for i := range l.Lines {
		l.Lines[i].Share = 100 * float64(by(l.Lines[i].count)) / float64(by(l.Lines[0].count))
	}
}

// byCount orders a counter by number of events.
func byCount(c count) int64 { return c.N }

// newest keeps the newest items.
type newest[T any] struct {
	all  []T
	Left int64 // number of older items
}

func (n *newest[T]) appendItem(one T, max int) {
	if len(n.all) == max {
		n.all, n.Left = n.all[1:], n.Left+1 // append reallocates it when it is full
	}
	n.all = append(n.all, one)
}

// All returns the items, the last first.
func (n newest[T]) All() []T {
	all := slices.Clone(n.all)
	slices.Reverse(all)
	return all
}
