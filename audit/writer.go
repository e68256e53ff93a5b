package audit

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// maxLockPoll is the maximum time between two polls of another process's lock.
const maxLockPoll = 2 * time.Millisecond

// writer is the connection for writing rows, opened for the first row, since many commands only read.
type writer struct {
	conn                  *sql.Conn
	beginStmt, commitStmt *sql.Stmt // begin and commit a transaction
	selectTip, insertRow  *sql.Stmt
	tip                   tip // of the last commit

	unflushedSince time.Time // time of the first unflushed commit
	timerSet       bool      // the flush timer runs
	preallocated   bool      // growing the -wal file was tried
}

const (
	selectTipSQL = "SELECT seq, hash, kind FROM audit ORDER BY seq DESC LIMIT 1"
	insertRowSQL = "INSERT INTO audit (seq, time, kind, run, namespace, prev, hash, receipt, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// tip is the last row of the log.
type tip struct {
	seq     int64
	hash    []byte
	hex     string // hash as hex
	kind    string
	version uint32 // of the database whose last row it is
}

// lockDatabase takes the database's write lock, and waits up to l.wait for it.
func (w *writer) lockDatabase(l *logFile) error {
	if err := w.ensureReady(l); err != nil {
		return err
	}
	for end := time.Now().Add(l.wait); ; time.Sleep(rand.N(maxLockPoll)) {
		if _, err := w.beginStmt.Exec(); !isBusy(err) || time.Now().After(end) {
			return err
		}
	}
}

// ensureReady opens the connection if necessary, and checks that its file is still the log.
func (w *writer) ensureReady(l *logFile) error {
	if err := l.disk.failure(); err != nil {
		return err
	}
	if w.conn == nil {
		if err := w.open(context.Background(), l.db); err != nil {
			return err
		}
	}
	// SQLite would continue to write to a deleted file.
	if info, err := os.Stat(l.path); err != nil || !os.SameFile(info, l.file) {
		return errMoved
	}
	return nil
}

// checkpointPages is the number of 4 KiB pages in the -wal file at which a commit folds them into the log, which takes
// some milliseconds. With SQLite's default of 1000, one run in a hundred waited for it; the signer of a signed log
// folds at 1000, in commits that no caller waits for.
const checkpointPages = 4000

// open opens the connection, and turns off SQLite's own waiting: for locks, since it sleeps up to 100 ms between polls
// (with 32 appending processes, some waited for seconds), and for the disk, since only Append knows whether a caller
// waits for that. Folding the -wal file still syncs. busy_timeout is set last: the other pragmas read the schema, which
// a closing process may have locked.
func (w *writer) open(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = %d; PRAGMA busy_timeout = 0",
		checkpointPages)); err != nil {
		conn.Close()
		return err
	}
	for statement, s := range map[string]**sql.Stmt{"BEGIN IMMEDIATE": &w.beginStmt, "COMMIT": &w.commitStmt} {
		if *s, err = conn.PrepareContext(ctx, statement); err != nil {
			w.close()
			conn.Close()
			return err
		}
	}
	w.conn = conn
	return nil
}

// insertRows chains and inserts the rows of batch.
func (w *writer) insertRows(batch []*request, now func() time.Time) error {
	if err := cmp.Or(w.prepareOnce(&w.selectTip, selectTipSQL), w.prepareOnce(&w.insertRow, insertRowSQL)); err != nil {
		return err
	}
	tip, err := w.readTip()
	if err != nil {
		return err
	}
	first := tip.seq == 0
	for _, req := range batch {
		for i := range req.rows {
			r := &req.rows[i]
			tip.seq++
			r.Seq, r.Time, r.Prev = tip.seq, time.Unix(0, now().UnixNano()).UTC(), tip.hex
			hash := hashRow(*r)
			packed := req.packed[i]
			done, err := w.insertRow.Exec(r.Seq, r.Time.UnixNano(), r.Kind, r.Run, r.Namespace, storedPrev(tip.hash, first), hash[:],
				packed.signature, packed.data)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n != 1 { // a trigger can discard a row silently
				return errors.Join(err, fmt.Errorf("row %d was not taken: see sandboxmcp audit verify", r.Seq))
			}
			r.Hash, first = hex.EncodeToString(hash[:]), false
			tip.hash, tip.hex, tip.kind = hash[:], r.Hash, r.Kind
		}
	}
	w.tip = tip
	return nil
}

// prepareOnce prepares a statement on first use.
func (w *writer) prepareOnce(s **sql.Stmt, text string) (err error) {
	if *s == nil {
		*s, err = w.conn.PrepareContext(context.Background(), text)
	}
	return err
}

// readTip returns the last row. It reads the row unless w made the last commit.
func (w *writer) readTip() (t tip, err error) {
	t, w.tip = w.tip, tip{}
	if v := w.dataVersion(); v == 0 || t.version != v || t.seq == 0 {
		err = w.selectTip.QueryRow().Scan(&t.seq, &t.hash, &t.kind)
		t.hex = hex.EncodeToString(t.hash)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return tip{hash: make([]byte, hashSize), hex: strings.Repeat("00", hashSize)}, nil
	case err == nil && (len(t.hash) != hashSize || t.seq < 1 || t.seq == math.MaxInt64):
		return tip{}, fmt.Errorf("row %d, the last, was tampered with: see sandboxmcp audit verify", t.seq)
	case err == nil && t.kind == rotatedKind:
		return tip{}, errRotated
	}
	return t, err
}

// dataVersion returns a number that changes with each commit to the database, also of other processes, which SQLite
// notices
// at the start of a transaction; 0 if it is unknown. See
// https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntldataversion.
func (w *writer) dataVersion() (v uint32) {
	_ = w.conn.Raw(func(c any) (err error) {
		v, err = c.(sqlite.FileControl).FileControlDataVersion("main")
		return err
	})
	return v
}

// commitOrRollBack commits, or rolls back if err is not nil.
func (w *writer) commitOrRollBack(err error) error {
	if err == nil {
		_, err = w.commitStmt.Exec()
	}
	if err != nil {
		w.conn.ExecContext(context.Background(), "ROLLBACK") // fails if SQLite has rolled back already
	}
	return err
}

// close closes the connection. The statements are closed first: otherwise SQLite keeps the connection and its
// descriptors open, and never folds the -wal file into the log.
func (w *writer) close() {
	for _, s := range []**sql.Stmt{&w.beginStmt, &w.commitStmt, &w.selectTip, &w.insertRow} {
		if *s != nil {
			(*s).Close()
		}
	}
	if w.conn != nil {
		w.conn.Raw(func(any) error { return driver.ErrBadConn }) // discard it: its settings are for writing only
		w.conn.Close()
	}
}
