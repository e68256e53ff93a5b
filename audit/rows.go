package audit

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// Filter chooses rows. The zero value chooses all.
type Filter struct {
	Namespace  string
	Namespaces []string  // any of these: nil is all, and an empty list none
	Since      time.Time // the first moment that counts
	Until      time.Time // the first moment that does not
	Kinds      []string  // any of these
	Run        string
	After      int64    // only rows with a greater Seq
	Before     int64    // only rows with a smaller Seq; 0 is no limit
	Contains   []string // only rows whose data, as JSON, contains each of these texts
	Limit      int      // only the newest so many; 0 or less is no limit
	Sealed     bool     // also rows that were moved into segments

	// Missing is called for each segment that may have such rows and whose file is not here, and the rows after
	// it follow. If it is nil, that is an error.
	Missing func(Segment)
}

// Rows yields the rows that f chooses, by Seq. An error is the last thing it yields.
//
// It reads page by page and holds no lock in between, so the loop may take its time or stop early,
// and what is appended meanwhile still comes. To go on later, set After to the last Seq seen.
func (l *Log) Rows(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := l.each(ctx, f, func(r Row) bool { return yield(r, nil) }); err != nil {
			yield(Row{}, l.readError(err))
		}
	}
}

func (l *Log) readError(err error) error { return l.failed("read", err) }

// failed adds to an error what was being done to the log, and the remedy. nil stays nil.
func (l *Log) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s audit log %q: %w", what, l.path, explain(err, l.wait))
}

// each calls do for the rows that f chooses, until it returns false.
func (l *Log) each(ctx context.Context, f Filter, do func(Row) bool) error {
	if f.Limit > 0 && f.After < math.MaxInt64 {
		return l.newest(ctx, f, do)
	}
	for from := f.After + 1; from > f.After; { // it is not once it has run over the largest number
		segments, err := l.sealed(ctx, f, from)
		if err != nil {
			return err
		}
		for _, s := range segments {
			if more, err := s.each(ctx, f, func(r Row, _ []byte) bool { return do(r) }); err != nil || !more {
				return err
			}
			from = s.Last + 1
		}
		page, err := l.page(ctx, f, from, pageRows)
		if segments, err := l.sealed(ctx, f, from); err != nil {
			return err
		} else if len(segments) > 0 {
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

// sealed returns the segments that have row number from and those after it; none if f chooses no sealed rows.
func (l *Log) sealed(ctx context.Context, f Filter, from int64) ([]Segment, error) {
	if !f.Sealed {
		return nil, nil
	}
	last, err := sealedUpTo(ctx, l.db)
	if err != nil || last < from {
		return nil, err
	}
	all, err := l.segments(ctx, l.db, from)
	if err == nil && len(all) == 0 {
		err = errors.New("its list of segments was changed: see sandboxmcp audit verify")
	}
	return all, err
}

// newest calls do for the newest rows that f chooses. It keeps f.Limit of them.
func (l *Log) newest(ctx context.Context, f Filter, do func(Row) bool) error {
	live := f
	live.Limit, live.Sealed = 0, false
	query, args := f.query("seq", f.After+1)
	oldest, err := one[int64](ctx, l.db, "SELECT coalesce(min(seq), ?) FROM ("+query+" ORDER BY seq DESC LIMIT ?)",
		append(append([]any{f.After + 1}, args...), f.Limit)...)
	if err != nil {
		return err
	}
	live.After = oldest - 1
	var rows []Row
	err = l.each(ctx, live, func(r Row) bool {
		rows = append(rows, r)
		return len(rows) < f.Limit
	})
	if err != nil {
		return err
	}
	all, err := l.sealed(ctx, f, f.After+1) // after that, so that no row can have moved between the two
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

// How much of the log is read at once.
const (
	pageRows  = 1000
	pageBytes = 4 << 20 // of data
)

// page reads up to limit of the rows that f chooses, from row number from on. What it could read
// before an error is returned beside it.
func (l *Log) page(ctx context.Context, f Filter, from int64, limit int) (page []Row, err error) {
	query, args := f.query("seq, time, kind, run, namespace, data, prev, hash", from)
	rows, err := l.db.QueryContext(ctx, query+" ORDER BY seq LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; size < pageBytes && rows.Next(); {
		r, err := scan(rows)
		if err != nil {
			return page, err
		}
		page, size = append(page, r), size+len(r.Data)
	}
	return page, rows.Err()
}

func scan(rows *sql.Rows) (r Row, err error) {
	var nanos int64
	var data, prev, hash sql.RawBytes
	if err := rows.Scan(&r.Seq, &nanos, &r.Kind, &r.Run, &r.Namespace, &data, &prev, &hash); err != nil {
		if rows.Err() == nil { // else it was ctx
			err = fmt.Errorf("%w: %v", errType, err)
		}
		return r, err
	}
	r.Time = time.Unix(0, nanos).UTC()
	r.Data = json.RawMessage(append([]byte{}, data...))
	r.Prev, r.Hash = hex.EncodeToString(prev), hex.EncodeToString(hash)
	return r, nil
}

// query selects columns of the rows that f chooses from number from on, without After and Limit. There is one SELECT
// for each kind: SQLite merges them by seq as they come out of the index, and would sort all rows of all kinds for each
// page otherwise. A run has few rows, which need no index by kind; the plus keeps SQLite from using it.
func (f Filter) query(columns string, from int64) (query string, args []any) {
	where, args := f.where(from)
	query = "SELECT " + columns + " FROM audit" + where
	kinds := slices.Compact(slices.Sorted(slices.Values(f.Kinds)))
	if len(kinds) == 0 {
		return query, args
	}
	if f.Run != "" || len(kinds) > maxMerged {
		for _, kind := range kinds {
			args = append(args, kind)
		}
		return query + " AND +kind IN (?" + strings.Repeat(", ?", len(kinds)-1) + ")", args
	}
	each := slices.Repeat([]string{query + " AND kind = ?"}, len(kinds))
	var all []any
	for _, kind := range kinds {
		all = append(append(all, args...), kind)
	}
	return strings.Join(each, " UNION ALL "), all
}

// maxMerged is below the 500 that SQLite can merge.
const maxMerged = 100

// where returns the SQL condition of f, without After, Limit and Kinds, for the rows from number from on.
func (f Filter) where(from int64) (clause string, args []any) {
	clause, args = " WHERE seq >= ?", []any{from}
	and := func(cond string, arg any) {
		clause, args = clause+" AND "+cond, append(args, arg)
	}
	if f.Namespace != "" {
		and("namespace = ?", f.Namespace)
	}
	if f.Namespaces != nil {
		list, _ := json.Marshal(f.Namespaces) // of strings; one argument however many there are
		and("namespace IN (SELECT value FROM json_each(?))", string(list))
	}
	if f.Run != "" {
		and("run = ?", f.Run)
	}
	if !f.Since.IsZero() {
		and("time >= ?", nanos(f.Since))
	}
	if !f.Until.IsZero() {
		and("time < ?", nanos(f.Until))
	}
	if f.Before > 0 {
		and("seq < ?", f.Before)
	}
	for _, text := range f.Contains {
		and("instr(data, ?) > 0", text)
	}
	return clause, args
}

// nanos returns t in the unit of the log. Outside of the years 1678 to 2262 that is the nearest time that the log can
// hold.
func nanos(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Follow yields the rows of Rows and then, until ctx ends, new rows. It looks for them
// that often, which costs some microseconds where nothing has happened.
func (l *Log) Follow(ctx context.Context, f Filter, every time.Duration) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		tick := time.NewTicker(max(every, time.Millisecond))
		defer tick.Stop()
		for {
			if more, err := l.catchUp(ctx, &f, yield); ctx.Err() != nil || !more {
				return
			} else if err != nil {
				yield(Row{}, l.readError(err))
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

// catchUp yields the rows that f chooses up to now, and moves f behind them.
func (l *Log) catchUp(ctx context.Context, f *Filter, yield func(Row, error) bool) (more bool, err error) {
	head, err := lastSeq(ctx, l.db)
	if err != nil || head <= f.After {
		return true, err
	}
	more = true
	err = l.each(ctx, *f, func(r Row) bool {
		f.After = r.Seq
		more = yield(r, nil)
		return more
	})
	f.After, f.Limit = max(f.After, head), 0 // also past rows that f does not choose
	return more, err
}
