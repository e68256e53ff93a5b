package audit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// maxBatch is how many requests share one transaction: it bounds how long other processes wait.
const maxBatch = 512

// maxPause is the longest time between two looks at a lock that another process holds.
const maxPause = 2 * time.Millisecond

// soonest is how long rows that nobody waits for may be off the disk. Most runs have ended by then, and what puts
// their ends on the disk takes their starts along.
const soonest = 2 * time.Millisecond

// write is the goroutine that does all writing of this Log. It lives until Close.
func (l *Log) write() {
	defer close(l.written)
	var w writer
	defer w.close()
	defer func() { w.flush(l) }()
	s := l.signer
	if s != nil {
		s.settle = func() error { return w.settle(l) }
		defer s.close()
	}
	quiet, loose := time.NewTimer(s.patience()), time.NewTimer(soonest)
	for {
		select {
		case r := <-l.queue:
			if r == nil { // the log is closed
				if s != nil && s.due {
					s.try(l)
				}
				return
			}
			rows := l.commit(&w, r)
			if w.loose {
				loose.Reset(soonest)
			}
			if s == nil {
				continue
			}
			quiet.Reset(s.count(l, rows))
			if len(l.queue) == 0 {
				s.prime(l)
			}
		case <-loose.C:
			w.flush(l) // a disk that fails is found again by the next row, which is not written then
		case r := <-l.asks:
			if r.state.CompareAndSwap(waiting, taken) {
				r.note, r.err = s.try(l)
				close(r.done)
			}
			quiet.Reset(s.patience())
		case <-quiet.C:
			if s != nil && s.due {
				s.try(l)
			}
			quiet.Reset(s.patience())
		}
	}
}

// commit writes r, and what else waits by the time it has the database's lock. Before that nothing
// is taken, so that callers can give up as long as other processes keep us waiting. It returns the
// number of rows that were written.
func (l *Log) commit(w *writer, r *request) (rows int) {
	err := w.begin(l)
	batch := l.take(r)
	if err == nil {
		err = w.end(w.insert(batch, l.now))
	}
	if err == nil {
		w.loose = true
		if slices.ContainsFunc(batch, func(r *request) bool { return !r.soon }) {
			err = w.flush(l)
		}
	}
	if err != nil {
		err = explain(err, l.wait)
	}
	for _, r := range batch {
		r.err = err
		close(r.done)
		if err == nil {
			rows += len(r.rows)
		}
	}
	return rows
}

// take returns r and the requests that wait behind it, but those whose callers have given up.
func (l *Log) take(r *request) (batch []*request) {
	for r != nil {
		if r.state.CompareAndSwap(waiting, taken) {
			batch = append(batch, r)
		}
		if len(batch) == maxBatch {
			break
		}
		select {
		case r = <-l.queue: // nil once the log is closed
		default:
			r = nil
		}
	}
	return batch
}

// writer is the connection that rows are written with, made when the first row comes: many a
// command only reads.
type writer struct {
	conn       *sql.Conn
	head, put  *sql.Stmt
	putReceipt *sql.Stmt // made when the first one comes

	wal    *os.File // what a commit writes to
	loose  bool     // rows are committed, and not known to be on the disk
	failed error    // what became of the disk
}

const (
	selectHead = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
	insertRow  = "INSERT INTO audit (seq, time, kind, run, namespace, data, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)

// begin takes the database's write lock.
func (w *writer) begin(l *Log) error {
	ctx := context.Background()
	if w.failed != nil {
		return w.failed
	}
	if w.conn == nil {
		if err := w.open(ctx, l.db); err != nil {
			return err
		}
	}
	// SQLite would go on writing into a file that has no name any more.
	if info, err := os.Stat(l.path); err != nil || !os.SameFile(info, l.file) {
		return errMoved
	}
	for end := time.Now().Add(l.wait); ; time.Sleep(rand.N(maxPause)) {
		_, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		if !busy(err) || time.Now().After(end) {
			return err
		}
	}
}

// foldLate is how many pages of 4 KiB the -wal file may have before a commit folds them into the log, which
// takes some milliseconds. With SQLite's own 1000, one run in a hundred waited for it; a log that is signed
// is folded by its signer, whose commits nobody waits for, and which keeps to the 1000.
const foldLate = 4000

// open gets the connection, and turns off SQLite's own waiting: for locks, since it sleeps for up to
// 100 ms between two looks (with 32 processes that append all the time, some waited for seconds), and for
// the disk, since only we know whether somebody waits for that. Folding the -wal file waits as ever.
func (w *writer) open(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = 0; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = %d", foldLate)); err != nil {
		conn.Close()
		return err
	}
	w.conn = conn
	return nil
}

// insert gives the rows of batch their places in the chain.
func (w *writer) insert(batch []*request, now func() time.Time) error {
	if err := w.prepare(); err != nil {
		return err
	}
	seq, prev, err := w.last()
	if err != nil {
		return err
	}
	for _, req := range batch {
		for i := range req.rows {
			r := &req.rows[i]
			seq++
			r.Seq, r.Time, r.Prev = seq, time.Unix(0, now().UnixNano()).UTC(), hex.EncodeToString(prev)
			hash := sum(*r)
			done, err := w.put.Exec(r.Seq, r.Time.UnixNano(), r.Kind, r.Run, r.Namespace, string(r.Data), prev, hash[:])
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n != 1 { // a trigger can make a row vanish in silence
				return errors.Join(err, fmt.Errorf("row %d was not taken: see sandboxmcp audit verify", seq))
			}
			r.Hash, prev = hex.EncodeToString(hash[:]), hash[:]
			if err := w.attach(seq, req.receipts[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) prepare() (err error) {
	ctx := context.Background()
	if w.head == nil {
		if w.head, err = w.conn.PrepareContext(ctx, selectHead); err != nil {
			return err
		}
	}
	if w.put == nil {
		w.put, err = w.conn.PrepareContext(ctx, insertRow)
	}
	return err
}

// last returns the number and the hash of the row that the next one follows.
func (w *writer) last() (seq int64, hash []byte, err error) {
	err = w.head.QueryRow().Scan(&seq, &hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, make([]byte, hashSize), nil
	case err == nil && (len(hash) != hashSize || seq < 1 || seq == math.MaxInt64):
		return 0, nil, fmt.Errorf("row %d, the last, was tampered with: see sandboxmcp audit verify", seq)
	}
	return seq, hash, err
}

// end commits, or rolls back if err says that something failed.
func (w *writer) end(err error) error {
	ctx := context.Background()
	if err == nil {
		_, err = w.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		w.conn.ExecContext(ctx, "ROLLBACK") // fails where SQLite has done it already
	}
	return err
}

// flush puts what was committed on the disk, as SQLite would after each commit with synchronous=FULL. Where
// that fails once, it can't be known what is there, and nothing more is written.
func (w *writer) flush(l *Log) error {
	if !w.loose || w.failed != nil {
		return w.failed
	}
	if w.wal == nil {
		w.wal, w.failed = os.OpenFile(l.path+"-wal", os.O_RDWR, 0)
	}
	if w.failed == nil {
		w.failed = l.sync(w.wal)
	}
	w.loose = w.failed != nil
	return w.failed
}

// settle puts on the disk what this and other processes have committed: what is signed must not be lost.
func (w *writer) settle(l *Log) error {
	if _, err := os.Stat(l.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return w.failed // all is in the log's own file
	}
	w.loose = true
	return w.flush(l)
}

// close gives the connection back. Unless the statements are closed first, SQLite keeps it open
// behind our back, with its descriptors, and never folds the -wal file into the log.
func (w *writer) close() {
	if w.head != nil {
		w.head.Close()
	}
	if w.put != nil {
		w.put.Close()
	}
	if w.putReceipt != nil {
		w.putReceipt.Close()
	}
	w.wal.Close() // of nil, too
	if w.conn != nil {
		w.conn.Raw(func(any) error { return driver.ErrBadConn }) // others get none that was set up for writing
		w.conn.Close()
	}
}
