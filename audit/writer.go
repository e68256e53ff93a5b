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

// maxLockPoll is the longest time between two polls of a lock that another process holds.
const maxLockPoll = 2 * time.Millisecond

// writer is the connection that rows are written with, made when the first row comes: many a command only reads.
type writer struct {
	conn                  *sql.Conn
	beginStmt, commitStmt *sql.Stmt // of a transaction
	selectTip, insertRow  *sql.Stmt
	tip                   tip // of the last commit

	unflushedSince time.Time // when the first of the commits was made that are not on the disk
	timerSet       bool      // that is looked after
	preallocated   bool      // the wal was made longer, or could not be
}

const (
	selectTipSQL = "SELECT seq, hash, kind FROM audit ORDER BY seq DESC LIMIT 1"
	insertRowSQL = "INSERT INTO audit (seq, time, kind, run, namespace, prev, hash, receipt, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// tip is the row that the next one follows.
type tip struct {
	seq     int64
	hash    []byte
	hex     string // hash as hex
	kind    string
	version uint32 // of the database whose last row it is
}

// lockDatabase takes the database's write lock. It waits as long as a call may.
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

// ensureReady makes sure that there is a connection, and that the file it writes to is still the log.
func (w *writer) ensureReady(l *logFile) error {
	if err := l.disk.failure(); err != nil {
		return err
	}
	if w.conn == nil {
		if err := w.open(context.Background(), l.db); err != nil {
			return err
		}
	}
	// SQLite would go on writing into a file that has no name any more.
	if info, err := os.Stat(l.path); err != nil || !os.SameFile(info, l.file) {
		return errMoved
	}
	return nil
}

// checkpointPages is how many pages of 4 KiB the -wal file may have before a commit folds them into the log, which
// takes some milliseconds. With SQLite's own 1000, one run in a hundred waited for it; a log that is signed
// is folded by its signer, whose commits nobody waits for, and which keeps to the 1000.
const checkpointPages = 4000

// open gets the connection, and turns off SQLite's own waiting: for locks, since it sleeps for up to
// 100 ms between two looks (with 32 processes that append all the time, some waited for seconds), and for
// the disk, since only we know whether somebody waits for that. Folding the -wal file waits as ever. Waiting for
// locks ends last: the other pragmas read the schema, which a process that closes the log may hold.
func (w *writer) open(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = %d; PRAGMA busy_timeout = 0", checkpointPages)); err != nil {
		conn.Close()
		return err
	}
	for sql, s := range map[string]**sql.Stmt{"BEGIN IMMEDIATE": &w.beginStmt, "COMMIT": &w.commitStmt} {
		if *s, err = conn.PrepareContext(ctx, sql); err != nil {
			w.close()
			conn.Close()
			return err
		}
	}
	w.conn = conn
	return nil
}

// insertRows gives the rows of batch their places in the chain.
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
			done, err := w.insertRow.Exec(r.Seq, r.Time.UnixNano(), r.Kind, r.Run, r.Namespace, storedPrev(tip.hash, first), hash[:], packed.signature, packed.data)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n != 1 { // a trigger can make a row vanish in silence
				return errors.Join(err, fmt.Errorf("row %d was not taken: see sandboxmcp audit verify", r.Seq))
			}
			r.Hash, first = hex.EncodeToString(hash[:]), false
			tip.hash, tip.hex, tip.kind = hash[:], r.Hash, r.Kind
		}
	}
	w.tip = tip
	return nil
}

// prepareOnce makes a statement when it is first needed.
func (w *writer) prepareOnce(s **sql.Stmt, text string) (err error) {
	if *s == nil {
		*s, err = w.conn.PrepareContext(context.Background(), text)
	}
	return err
}

// readTip returns the row that the next one follows. It reads it unless the last commit of all was made by w.
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

// dataVersion returns a number that changes with each commit to the database, also of other processes, which SQLite notices
// at the start of a transaction; 0 if it is unknown. See
// https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntldataversion.
func (w *writer) dataVersion() (v uint32) {
	_ = w.conn.Raw(func(c any) (err error) {
		v, err = c.(sqlite.FileControl).FileControlDataVersion("main")
		return err
	})
	return v
}

// commitOrRollBack commits, or rolls back if err says that something failed.
func (w *writer) commitOrRollBack(err error) error {
	if err == nil {
		_, err = w.commitStmt.Exec()
	}
	if err != nil {
		w.conn.ExecContext(context.Background(), "ROLLBACK") // fails where SQLite has done it already
	}
	return err
}

// close gives the connection back. Unless the statements are closed first, SQLite keeps it open
// behind our back, with its descriptors, and never folds the -wal file into the log.
func (w *writer) close() {
	for _, s := range []**sql.Stmt{&w.beginStmt, &w.commitStmt, &w.selectTip, &w.insertRow} {
		if *s != nil {
			(*s).Close()
		}
	}
	if w.conn != nil {
		w.conn.Raw(func(any) error { return driver.ErrBadConn }) // others get none that was set up for writing
		w.conn.Close()
	}
}
