package audit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// eachSealed is each, including rows in segments.
func (l *Log) eachSealed(ctx context.Context, f Filter, do func(Row) bool) error {
	if f.Limit > 0 {
		return l.newest(ctx, f, do)
	}
	var all []Segment
	known := int64(-1) // all that were sealed up to that row are in all
	for from := f.After + 1; from > f.After; {
		sealed, err := sealedUpTo(ctx, l.db)
		if err != nil {
			return err
		}
		if sealed >= from {
			if sealed > known {
				if all, err = l.segments(ctx, l.db, from); err != nil {
					return err
				}
				known = sealed
			}
			if len(all) == 0 {
				return errors.New("its list of segments was changed: see sandboxmcp audit verify")
			}
			s := all[0]
			all, from = all[1:], s.Last+1
			if more, err := s.each(ctx, f, func(r Row, _ []byte) bool { return do(r) }); err != nil || !more {
				return err
			}
			continue
		}
		page, err := l.page(ctx, f, from, pageRows)
		if sealed, err := sealedUpTo(ctx, l.db); err != nil {
			return err
		} else if sealed >= from {
			continue // rows may have left while the page was read
		}
		for _, r := range page {
			if !do(r) {
				return nil
			}
		}
		if err != nil || len(page) == 0 {
			return err
		}
		from = page[len(page)-1].Seq + 1
	}
	return nil
}

// newest calls do for the newest rows that f chooses. It keeps f.Limit of them.
func (l *Log) newest(ctx context.Context, f Filter, do func(Row) bool) error {
	f.Sealed = false
	var rows []Row
	err := l.each(ctx, f, func(r Row) bool {
		rows = append(rows, r)
		return true
	})
	if err != nil {
		return err
	}
	all, err := l.segments(ctx, l.db, f.After+1) // after that, so that no row can have moved between the two
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(all) {
		left := f.Limit - len(rows)
		if left <= 0 {
			break
		}
		var older []Row
		_, err := s.each(ctx, f, func(r Row, _ []byte) bool {
			if len(rows) > 0 && r.Seq >= rows[0].Seq {
				return false
			}
			if older = append(older, r); len(older) > 2*left {
				older = slices.Clone(older[len(older)-left:])
			}
			return true
		})
		if err != nil {
			return err
		}
		rows = append(older[max(0, len(older)-left):], rows...)
	}
	for _, r := range rows {
		if !do(r) {
			return nil
		}
	}
	return nil
}

// mayHave reports whether rows that f chooses can be in a segment, as far as that is known without its file.
func (f Filter) mayHave(s Segment) bool {
	return s.Last > f.After && (f.Before <= 0 || s.First < f.Before) &&
		(f.Since.IsZero() || !s.Newest.Before(f.Since)) &&
		(f.Until.IsZero() || s.Oldest.Before(f.Until)) &&
		!s.Newest.Before(began(f.Run).Add(-clockSlack))
}

// clockSlack is how far a clock may have been set back while a run was going on.
const clockSlack = 24 * time.Hour

// began returns the time at which a run began, by its name, a ULID: the first ten characters are milliseconds in
// Crockford's base 32 (https://github.com/ulid/spec). For any other name it is the zero time.
func began(run string) time.Time {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	if len(run) != 26 || run[0] > '7' {
		return time.Time{}
	}
	var ms int64
	for i := range run {
		n := strings.IndexByte(digits, run[i])
		if n < 0 {
			return time.Time{}
		}
		if i < 10 {
			ms = ms<<5 | int64(n)
		}
	}
	return time.UnixMilli(ms)
}

// chooses reports whether f chooses r, as the SQL of where does.
func (f Filter) chooses(r Row) bool {
	at := r.Time.UnixNano()
	lacks := func(text string) bool { return !strings.Contains(string(r.Data), text) }
	return r.Seq > f.After && (f.Before <= 0 || r.Seq < f.Before) && !slices.ContainsFunc(f.Contains, lacks) &&
		(f.Namespace == "" || r.Namespace == f.Namespace) &&
		(len(f.Namespaces) == 0 || slices.Contains(f.Namespaces, r.Namespace)) &&
		(f.Run == "" || r.Run == f.Run) &&
		(f.Since.IsZero() || at >= nanos(f.Since)) &&
		(f.Until.IsZero() || at < nanos(f.Until)) &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, r.Kind))
}
