package audit

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Filter chooses rows. The zero value chooses all.
type Filter struct {
	Namespace  string
	Namespaces []string  // any of these: nil is all, an empty list is none
	Since      time.Time // inclusive
	Until      time.Time // exclusive
	Kinds      []string  // any of these
	Run        string
	After      int64    // only rows with a greater Seq
	Before     int64    // only rows with a smaller Seq; 0 is no limit
	Contains   []string // only rows whose data, as JSON, contains each of these texts
	Limit      int      // maximum number of newest rows; 0 or less is no limit
}

// Rows yields the rows that f chooses, by Seq. It stops after an error.
//
// It reads pages and holds no lock between them, so the loop may be slow or stop early, and it yields rows that are
// appended meanwhile. To continue later, set After to the last Seq.
func (l *Log) Rows(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if _, err := l.eachRow(ctx, f, func(r Row) bool { return yield(r, nil) }); err != nil {
			yield(Row{}, l.readError(err))
		}
	}
}

func (l *Log) readError(err error) error { return l.wrapFault("read", err) }

// wrapFault wraps an error as a *Fault with the failed operation and a remedy. nil stays nil.
func (l *Log) wrapFault(what string, err error) error {
	if err == nil {
		return nil
	}
	return &Fault{fmt.Errorf("%s audit log %q: %w", what, l.path, explain(err, l.wait))}
}

// eachRow calls do for the rows that f chooses, until it returns false.
func (l *Log) eachRow(ctx context.Context, f Filter, do func(Row) bool) (more bool, err error) {
	if f.After == math.MaxInt64 {
		return true, nil
	}
	files, err := l.filesFrom(ctx, f.After+1)
	if err == nil && f.Limit > 0 {
		f.After, err = limitAfter(ctx, files, f)
	}
	for _, file := range files {
		if more = err == nil; more {
			more, err = file.eachRow(ctx, f, do)
		}
		if !more {
			break
		}
	}
	return more, err
}

// limitAfter returns the number after which there are f.Limit rows that f chooses, or all.
func limitAfter(ctx context.Context, files []*logFile, f Filter) (after int64, err error) {
	after = f.After
	for _, file := range slices.Backward(files) {
		oldest, n, err := file.limitStart(ctx, f)
		if err != nil {
			return after, err
		}
		if f.Limit -= n; f.Limit <= 0 {
			return oldest - 1, nil
		}
	}
	return after, nil
}

// rows yields the rows of the file that f chooses; its Limit does not count.
func (l *logFile) rows(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if _, err := l.eachRow(ctx, f, func(r Row) bool { return yield(r, nil) }); err != nil {
			yield(Row{}, err)
		}
	}
}

// eachRow calls do for the rows of the file that f chooses, until it returns false; its Limit does not count.
func (l *logFile) eachRow(ctx context.Context, f Filter, do func(Row) bool) (more bool, err error) {
	if l.damaged {
		return l.eachReadable(ctx, f, do)
	}
	for from := f.After + 1; from > f.After; { // false after an integer overflow
		page, err := l.readPage(ctx, f, from, pageRows, false)
		for _, r := range page {
			if f.contains(r.Data) && !do(r.Row) {
				return false, nil
			}
		}
		if err != nil || len(page) == 0 {
			return true, err
		}
		from = page[len(page)-1].Seq + 1
	}
	return true, nil
}

// limitStart returns the number from which on there are f.Limit rows of the file that f chooses, or all, and how many.
func (l *logFile) limitStart(ctx context.Context, f Filter) (from int64, n int, err error) {
	if len(f.Contains) > 0 {
		return l.limitStartByContent(ctx, f)
	}
	query, args := f.query("seq", f.After+1)
	err = l.db.QueryRowContext(ctx, "SELECT coalesce(min(seq), ?), count(*) FROM ("+query+" ORDER BY seq DESC LIMIT ?)",
		append(append([]any{f.After + 1}, args...), f.Limit)...).Scan(&from, &n)
	return from, n, err
}

// limitStartByContent is limitStart for a filter by content.
func (l *logFile) limitStartByContent(ctx context.Context, f Filter) (from int64, n int, err error) {
	p, err := l.codec(ctx)
	if err != nil {
		return 0, 0, err
	}
	query, args := f.query("seq, data", f.After+1)
	var seq int64
	var packed sql.RawBytes
	var buf []byte
	from = f.After + 1
	for err := range statefile.Each(ctx, l.db, []any{&seq, &packed}, query+" ORDER BY seq DESC", args...) {
		if err != nil {
			return 0, 0, err
		}
		c, err := p.Unpack(packed, buf[:0])
		if err != nil {
			return 0, 0, fmt.Errorf("row %d: %w", seq, err)
		}
		if buf = c; f.contains(c.Data()) {
			if from, n = seq, n+1; n == f.Limit {
				break
			}
		}
	}
	return from, n, nil
}

// contains reports whether the data of a row has all texts of f.
func (f Filter) contains(data []byte) bool {
	return !slices.ContainsFunc(f.Contains, func(text string) bool { return !bytes.Contains(data, []byte(text)) })
}

// Limits of a page.
const (
	pageRows  = 1000
	pageBytes = 4 << 20 // of data
)

// readPage reads up to limit of the rows that f chooses, from row number from on, optionally with receipts. It ignores
// f.Contains. With an error it also returns the rows before it.
func (l *logFile) readPage(ctx context.Context, f Filter, from int64, limit int, receipts bool) (page []stored, err error) {
	p, err := l.codec(ctx)
	if err != nil {
		return nil, err
	}
	query, args := f.query(storedColumns, from)
	rows, err := l.db.QueryContext(ctx, query+" ORDER BY seq LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := scanner{Codec: p, receipts: receipts}
	for size := 0; size < pageBytes && rows.Next(); {
		r, err := s.scanRow(rows)
		if err != nil {
			return page, err
		}
		page, size = append(page, r), size+len(r.Data)
	}
	return page, rows.Err()
}

// query selects columns of the rows that f chooses from number from on, without After and Limit. There is one SELECT
// for each kind: SQLite merges them by seq from the index; otherwise it would sort all rows of all kinds for each page.
// A run has few rows, which need no index by kind; the plus keeps SQLite from using it.
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
		list, _ := json.Marshal(f.Namespaces) // one argument for any number of names
		and("namespace IN (SELECT value FROM json_each(?))", string(list))
	}
	if f.Run != "" {
		and("run = ?", f.Run)
	}
	if !f.Since.IsZero() {
		and("time >= ?", clampedNanos(f.Since))
	}
	if !f.Until.IsZero() {
		and("time < ?", clampedNanos(f.Until))
	}
	if f.Before > 0 {
		and("seq < ?", f.Before)
	}
	return clause, args
}

// clampedNanos returns t in the unit of the log. Outside of the years 1678 to 2262 that is the nearest representable
// time.
func clampedNanos(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// RowsAndNew yields the rows of Rows and then, until ctx ends, new rows. It polls at the interval every, at a cost of
// some microseconds.
func (l *Log) RowsAndNew(ctx context.Context, f Filter, every time.Duration) iter.Seq2[Row, error] {
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

// catchUp yields the rows that f chooses so far, and advances f past them.
func (l *Log) catchUp(ctx context.Context, f *Filter, yield func(Row, error) bool) (more bool, err error) {
	now, err := l.currentFile(ctx)
	var head int64
	if err == nil {
		head, err = lastSeq(ctx, now.db)
	}
	if err != nil || head <= f.After {
		return true, err
	}
	more = true
	_, err = l.eachRow(ctx, *f, func(r Row) bool {
		f.After = r.Seq
		more = yield(r, nil)
		return more
	})
	f.After, f.Limit = max(f.After, head), 0 // also past rows that f does not choose
	return more, err
}
