package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

var errNothing = errors.New("the log has no entry for it")

// rowForProof returns the row for Proof: the row of a number, or the row of a run.
func (l *Log) rowForProof(ctx context.Context, id string) (stored, error) {
	seq, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return l.rowOfRun(ctx, id)
	}
	files, err := l.filesFrom(ctx, seq)
	if err != nil {
		return stored{}, err
	}
	if seq > 0 && seq < files[0].first {
		return stored{}, fmt.Errorf("row %d is in a file that is not here: what is here begins with row %d", seq, files[0].first)
	}
	return files[0].readRow(ctx, seq)
}

// rowOfRun returns the row of a run with the receipt, the newest if there are several, or its last row if none has a
// receipt.
func (l *Log) rowOfRun(ctx context.Context, run string) (stored, error) {
	files, err := l.filesFrom(ctx, 1)
	if err != nil {
		return stored{}, err
	}
	for _, f := range slices.Backward(files) {
		seq, err := statefile.One[int64](ctx, f.db, "SELECT seq FROM audit WHERE run = ? AND run <> '' ORDER BY receipt IS NULL, seq "+
			"DESC LIMIT 1", run)
		if err == nil {
			return f.readRow(ctx, seq)
		} else if !errors.Is(err, sql.ErrNoRows) {
			return stored{}, err
		}
	}
	return stored{}, errNothing
}

// readRow returns the row of a number, with its receipt.
func (l *logFile) readRow(ctx context.Context, seq int64) (stored, error) {
	page, err := l.readPage(ctx, Filter{}, seq, 1, true)
	if err != nil {
		return stored{}, err
	}
	if len(page) > 0 && page[0].Seq == seq {
		return page[0], nil
	}
	return stored{}, fmt.Errorf("the log has no row %d", seq)
}
