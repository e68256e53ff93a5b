package audit

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// found is a row that was asked for.
type found struct {
	row     Row
	receipt []byte   // of a sealed row, or of a run
	segment *Segment // that has it, or nil for the database
}

var errNothing = errors.New("the log has nothing about it")

// find returns the row that Proof is about: the row of that number, or that of a run.
func (l *Log) find(ctx context.Context, id string) (found, error) {
	if seq, err := strconv.ParseInt(id, 10, 64); err == nil {
		return l.row(ctx, seq)
	}
	return l.rowOf(ctx, id)
}

// rowOf returns the row of a run with the receipt, the newest if there are several, or else the last row.
func (l *Log) rowOf(ctx context.Context, run string) (found, error) {
	var seq int64
	var receipt []byte
	err := l.db.QueryRowContext(ctx, `SELECT a.seq, r.envelope FROM audit a LEFT JOIN receipts r ON r.seq = a.seq
		WHERE a.run = ? AND a.run <> '' ORDER BY r.seq IS NULL, a.seq DESC LIMIT 1`, run).Scan(&seq, &receipt)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return found{}, err
	}
	live := err == nil
	if receipt == nil {
		sealed, err := l.findSealed(ctx, run)
		if !live || err == nil && sealed.receipt != nil { // else the last row it is, whatever the segments may have
			return sealed, err
		}
	}
	about, err := l.row(ctx, seq)
	about.receipt = receipt
	return about, err
}

// row returns the row of a number.
func (l *Log) row(ctx context.Context, seq int64) (found, error) {
	page, err := l.page(ctx, Filter{}, seq, 1)
	if err != nil {
		return found{}, err
	}
	if len(page) > 0 && page[0].Seq == seq {
		return found{row: page[0]}, nil
	}
	all, err := l.segments(ctx, l.db, seq)
	if err != nil {
		return found{}, err
	}
	if len(all) > 0 && all[0].First <= seq {
		about := found{segment: &all[0]}
		_, err := all[0].each(ctx, Filter{After: seq - 1}, func(r Row, receipt []byte) bool {
			about.row, about.receipt = r, receipt
			return false
		})
		if err != nil || about.row.Seq == seq {
			return about, err
		}
	}
	return found{}, fmt.Errorf("the log has no row %d", seq)
}

// findSealed looks for a run in the segments, the newest first: for the row with its receipt, or else for the last.
func (l *Log) findSealed(ctx context.Context, run string) (about found, err error) {
	if run == "" {
		return about, errNothing
	}
	all, err := l.segments(ctx, l.db, 0)
	if err != nil {
		return about, err
	}
	missing := ""
	f := Filter{Run: run, Missing: func(s Segment) { missing = s.Missing() }}
	for i, s := range slices.Backward(all) {
		first := about.segment == nil
		_, err := s.each(ctx, f, func(r Row, receipt []byte) bool {
			if receipt != nil || first && about.receipt == nil {
				about = found{r, receipt, &all[i]}
			}
			return true
		})
		if err != nil || about.receipt != nil {
			return about, err
		}
	}
	switch {
	case about.segment != nil:
		return about, nil
	case missing != "":
		return about, fmt.Errorf("%w, as far as it is here: %s", errNothing, missing)
	}
	return about, errNothing
}

// hashes returns the hashes of a segment's rows by number, each checked.
func (s Segment) hashes() (map[int64][]byte, error) {
	file, err := s.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := readSegmentRows(file)
	if c.bad != nil {
		err = fmt.Errorf("%v: see sandboxmcp audit verify", c.bad)
	}
	m := map[int64][]byte{}
	for _, r := range c.rows {
		m[r.Seq], _ = hex.DecodeString(r.Hash)
	}
	return m, err
}
