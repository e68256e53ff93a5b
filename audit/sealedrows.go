package audit

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// eachSealed is each for rows in segments, too.
func (l *Log) eachSealed(ctx context.Context, f Filter, do func(Row) bool) error {
	if f.Limit > 0 {
		return l.newest(ctx, f, do)
	}
	for from := f.After + 1; from > f.After; {
		s, err := l.segmentFrom(ctx, from)
		if err != nil {
			return err
		}
		if s != nil {
			from = s.Last + 1
			if more, err := s.each(ctx, f, func(r Row, _ []byte) bool { return do(r) }); err != nil || !more {
				return err
			}
			continue
		}
		page, err := l.page(ctx, f, from, pageRows)
		var sealed int64
		if err := l.db.QueryRowContext(ctx, selectSealed).Scan(&sealed); err != nil {
			return err
		}
		if sealed >= from {
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

// segmentFrom is the oldest segment that reaches row from, or nil.
func (l *Log) segmentFrom(ctx context.Context, from int64) (*Segment, error) {
	all, err := l.segments(ctx, l.db)
	for i := range all {
		if all[i].Last >= from {
			return &all[i], err
		}
	}
	return nil, err
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
	all, err := l.segments(ctx, l.db) // after that, so that no row can have moved between the two
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(all) {
		left := f.Limit - len(rows)
		if left <= 0 || s.Last <= f.After {
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

// each calls do for the rows of a segment that f chooses, and says whether there may be more.
func (s Segment) each(ctx context.Context, f Filter, do func(r Row, receipt []byte) bool) (more bool, err error) {
	file, err := os.Open(s.File)
	if os.IsNotExist(err) {
		return false, fmt.Errorf("rows %d to %d are in a sealed segment that is not here: %s", s.First, s.Last, s.File)
	} else if err != nil {
		return false, err
	}
	defer file.Close()
	more = true
	_, bad, err := readSegmentRows(file, func(r Row, receipt []byte) bool {
		if f.chooses(r) {
			more = do(r, receipt)
		}
		return more && ctx.Err() == nil
	})
	if bad != nil {
		err = fmt.Errorf("row %d %s", bad.Seq, bad.Why)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.File, err)
	}
	return more, ctx.Err()
}

// chooses is what where says in SQL.
func (f Filter) chooses(r Row) bool {
	at := r.Time.UnixNano()
	return r.Seq > f.After &&
		(f.Namespace == "" || r.Namespace == f.Namespace) &&
		(f.Run == "" || r.Run == f.Run) &&
		(f.Since.IsZero() || at >= nanos(f.Since)) &&
		(f.Until.IsZero() || at < nanos(f.Until)) &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, r.Kind))
}
