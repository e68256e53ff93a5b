package audit

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Report is what [Log.Verify] found.
type Report struct {
	Rows int64  `json:"rows"` // how many rows are good, from the first on
	Head string `json:"head"` // hash of the last good row: who keeps it can tell later that nothing before was rewritten or cut off
	Bad  *Bad   `json:"bad,omitempty"`
}

// Bad is the first thing that is wrong.
type Bad struct {
	Seq int64  `json:"seq"` // the row, or 0 where it is the table or the file
	Why string `json:"why"`
}

// Verify recomputes the whole chain, then compares the table and its triggers with what they were
// made as, and lets SQLite check the file. What is wrong with the log is in the report; an error
// means that it could not be read. Rows may be appended meanwhile.
func (l *Log) Verify(ctx context.Context) (Report, error) {
	c := chain{next: 1, head: hex.EncodeToString(make([]byte, hashSize))}
	bad, err := l.walk(ctx, &c)
	if bad == nil && err == nil {
		bad, err = l.inspect(ctx)
	}
	if err != nil {
		return Report{}, l.readError(err)
	}
	return Report{Rows: c.next - 1, Head: c.head, Bad: bad}, nil
}

// chain is how far the rows are good.
type chain struct {
	next       int64  // number of the row that must come
	head, prev string // hashes of the two rows before it
}

func (l *Log) walk(ctx context.Context, c *chain) (*Bad, error) {
	for from := int64(math.MinInt64); ; {
		rows, err := l.page(ctx, Filter{}, from, pageRows)
		for _, r := range rows {
			if bad := c.add(r); bad != nil {
				return bad, l.trace(ctx, c, r, bad)
			}
		}
		switch {
		case unreadable(err):
			return &Bad{c.next, fmt.Sprintf("cannot be read: %v", err)}, nil
		case err != nil || len(rows) == 0:
			return nil, err
		}
		from = c.next
	}
}

// add says what is wrong with r as the next row.
func (c *chain) add(r Row) *Bad {
	hash := sum(r)
	switch {
	case r.Seq < c.next:
		return &Bad{r.Seq, "stands before the first row"}
	case r.Seq > c.next:
		return &Bad{c.next, fmt.Sprintf("is missing: the row after row %d is row %d", c.next-1, r.Seq)}
	case r.Hash != hex.EncodeToString(hash[:]):
		return &Bad{r.Seq, "was edited: its hash does not match what it says"}
	case r.Prev != c.head && r.Seq == 1:
		return &Bad{1, "was replaced: it follows on a row that is not there"}
	case r.Prev != c.head: // both rows are sound in themselves, and the later one vouches for another
		c.next, c.head = c.next-1, c.prev
		return &Bad{r.Seq - 1, fmt.Sprintf("was replaced: row %d was chained to another row in its place", r.Seq)}
	}
	c.next, c.head, c.prev = c.next+1, r.Hash, c.head
	return nil
}

// trace tells a row that was moved from one that was edited where it stands: what it follows on is
// then still somewhere in the log.
func (l *Log) trace(ctx context.Context, c *chain, r Row, bad *Bad) error {
	if bad.Seq != r.Seq || r.Prev == c.head {
		return nil
	}
	prev, _ := hex.DecodeString(r.Prev) // hex because scan made it
	var seq int64
	err := l.db.QueryRowContext(ctx, "SELECT seq FROM audit WHERE hash = ? LIMIT 1", prev).Scan(&seq)
	switch {
	case err == nil:
		bad.Why = fmt.Sprintf("was moved here: it follows on what is now row %d", seq)
	case errors.Is(err, sql.ErrNoRows), unreadable(err):
		return nil
	}
	return err
}

// inspect finds what the chain does not show: that triggers are gone or the index hides rows.
func (l *Log) inspect(ctx context.Context) (*Bad, error) {
	want, err := pristine(ctx)
	if err != nil {
		return nil, err
	}
	got, err := objects(ctx, l.db)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if sql, ok := got[name]; !ok {
			return &Bad{0, "the " + name + " was removed"}, nil
		} else if sql != want[name] {
			return &Bad{0, "the " + name + " was changed"}, nil
		}
		delete(got, name)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		return &Bad{0, "the " + name + " was added"}, nil
	}
	var found string
	if err := l.db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found); err != nil {
		return nil, err
	}
	if found != "ok" {
		return &Bad{0, "the file is damaged: " + found}, nil
	}
	return nil, nil
}

// pristine is what objects returns for a new log.
func pristine(ctx context.Context) (map[string]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	return objects(ctx, db)
}

// objects returns the definition of the table audit and of what hangs on it.
func objects(ctx context.Context, db *sql.DB) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema WHERE lower(tbl_name) = 'audit'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	m := map[string]string{}
	for rows.Next() {
		var name, sql string
		if err := rows.Scan(&name, &sql); err != nil {
			return nil, err
		}
		m[name] = sql
	}
	return m, rows.Err()
}

// unreadable reports whether err is about what is in the database, not about getting at it.
func unreadable(err error) bool {
	var s *sqlite.Error
	if errors.As(err, &s) {
		code := s.Code() & 0xff
		return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_ERROR
	}
	return errors.Is(err, errType)
}
