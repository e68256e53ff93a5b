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
	"time"
)

// maxPause is the longest time between two polls of a lock that another process holds.
const maxPause = 2 * time.Millisecond

// writer is the connection that rows are written with, made when the first row comes: many a command only reads.
type writer struct {
	conn       *sql.Conn
	lock, done *sql.Stmt // of a transaction
	head, put  *sql.Stmt

	since        time.Time // when the first of the commits was made that are not on the disk
	timed        bool      // that is looked after
	preallocated bool      // the wal was made longer, or could not be
}

const (
	selectHead = "SELECT seq, hash, kind FROM audit ORDER BY seq DESC LIMIT 1"
	insertRow  = "INSERT INTO audit (seq, time, kind, run, namespace, prev, hash, receipt, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// begin takes the database's write lock. It waits as long as a call may.
func (w *writer) begin(l *logFile) error {
	if err := w.ready(l); err != nil {
		return err
	}
	for end := time.Now().Add(l.wait); ; time.Sleep(rand.N(maxPause)) {
		if _, err := w.lock.Exec(); !busy(err) || time.Now().After(end) {
			return err
		}
	}
}

// ready makes sure that there is a connection, and that the file it writes to is still the log.
func (w *writer) ready(l *logFile) error {
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

// foldLate is how many pages of 4 KiB the -wal file may have before a commit folds them into the log, which
// takes some milliseconds. With SQLite's own 1000, one run in a hundred waited for it; a log that is signed
// is folded by its signer, whose commits nobody waits for, and which keeps to the 1000.
const foldLate = 4000

// open gets the connection, and turns off SQLite's own waiting: for locks, since it sleeps for up to
// 100 ms between two looks (with 32 processes that append all the time, some waited for seconds), and for
// the disk, since only we know whether somebody waits for that. Folding the -wal file waits as ever. Waiting for
// locks ends last: the other pragmas read the schema, which a process that closes the log may hold.
func (w *writer) open(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = %d; PRAGMA busy_timeout = 0", foldLate)); err != nil {
		conn.Close()
		return err
	}
	for sql, s := range map[string]**sql.Stmt{"BEGIN IMMEDIATE": &w.lock, "COMMIT": &w.done} {
		if *s, err = conn.PrepareContext(ctx, sql); err != nil {
			w.close()
			conn.Close()
			return err
		}
	}
	w.conn = conn
	return nil
}

// insert gives the rows of batch their places in the chain.
func (w *writer) insert(batch []*request, now func() time.Time) error {
	if err := cmp.Or(w.prepare(&w.head, selectHead), w.prepare(&w.put, insertRow)); err != nil {
		return err
	}
	seq, prev, err := w.last()
	if err != nil {
		return err
	}
	first := seq == 0
	for _, req := range batch {
		for i := range req.rows {
			r := &req.rows[i]
			seq++
			r.Seq, r.Time, r.Prev = seq, time.Unix(0, now().UnixNano()).UTC(), hex.EncodeToString(prev)
			hash := sum(*r)
			packed := req.packed[i]
			done, err := w.put.Exec(r.Seq, r.Time.UnixNano(), r.Kind, r.Run, r.Namespace, link(prev, first), hash[:], packed.signature, packed.data)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n != 1 { // a trigger can make a row vanish in silence
				return errors.Join(err, fmt.Errorf("row %d was not taken: see sandboxmcp audit verify", seq))
			}
			r.Hash, prev, first = hex.EncodeToString(hash[:]), hash[:], false
		}
	}
	return nil
}

// prepare makes a statement when it is first needed.
func (w *writer) prepare(s **sql.Stmt, text string) (err error) {
	if *s == nil {
		*s, err = w.conn.PrepareContext(context.Background(), text)
	}
	return err
}

// last returns the number and the hash of the row that the next one follows.
func (w *writer) last() (seq int64, hash []byte, err error) {
	var kind string
	err = w.head.QueryRow().Scan(&seq, &hash, &kind)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, make([]byte, hashSize), nil
	case err == nil && (len(hash) != hashSize || seq < 1 || seq == math.MaxInt64):
		return 0, nil, fmt.Errorf("row %d, the last, was tampered with: see sandboxmcp audit verify", seq)
	case err == nil && kind == rotatedKind:
		return 0, nil, errRotated
	}
	return seq, hash, err
}

// end commits, or rolls back if err says that something failed.
func (w *writer) end(err error) error {
	if err == nil {
		_, err = w.done.Exec()
	}
	if err != nil {
		w.conn.ExecContext(context.Background(), "ROLLBACK") // fails where SQLite has done it already
	}
	return err
}

// close gives the connection back. Unless the statements are closed first, SQLite keeps it open
// behind our back, with its descriptors, and never folds the -wal file into the log.
func (w *writer) close() {
	for _, s := range []**sql.Stmt{&w.lock, &w.done, &w.head, &w.put} {
		if *s != nil {
			(*s).Close()
		}
	}
	if w.conn != nil {
		w.conn.Raw(func(any) error { return driver.ErrBadConn }) // others get none that was set up for writing
		w.conn.Close()
	}
}
