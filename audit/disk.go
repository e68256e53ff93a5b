package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"
)

// disk tracks which commits are on the disk. A flush does not block writers: commits made meanwhile are flushed next,
// for all waiting goroutines together.
type disk struct {
	commits atomic.Int64                // number of commits, under writeMu
	flushed atomic.Int64                // number of flushed commits
	failed  atomic.Pointer[error]       // failure of the disk
	last    atomic.Pointer[rowPosition] // row of the last commit

	mu           sync.Mutex // held during a flush
	wal          *os.File   // the file that commits write to
	acknowledged *os.File   // has the last flushed row
	flushes      int        // number of flushes
}

func (d *disk) failure() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// flush flushes all commits up to a number, as SQLite would after each commit with synchronous=FULL. After a failure
// the state of the disk is unknown, and nothing more is written.
func (d *disk) flush(l *logFile, commit int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flushed.Load() >= commit {
		return nil
	}
	if err := d.failure(); err != nil {
		return err
	}
	made, last := d.commits.Load(), d.last.Load()
	var err error
	if d.wal == nil {
		d.wal, err = os.OpenFile(l.path+"-wal", os.O_RDWR, 0)
	}
	if err == nil {
		err = l.sync(d.wal)
	}
	if d.flushes++; err != nil {
		d.failed.Store(&err)
		return err
	}
	d.flushed.Store(made)
	d.writeAcknowledged(acknowledgedPath(l.base), last)
	return nil
}

// isFlushing reports whether a flush is running.
func (d *disk) isFlushing() bool {
	free := d.mu.TryLock()
	if free {
		d.mu.Unlock()
	}
	return !free
}

// flushAll flushes the commits of this and other processes: signed rows must not be lost.
func (d *disk) flushAll(l *logFile) error {
	if _, err := os.Stat(l.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return d.failure() // all rows are in the log's main file
	}
	return d.flush(l, math.MaxInt64)
}

// busyWAL returns the -wal file of a busy log, or nil.
func (d *disk) busyWAL() *os.File {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flushes < busyFlushes {
		return nil
	}
	return d.wal
}

func (d *disk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wal.Close() // also of nil
	d.acknowledged.Close()
}

// walSize is the size, in bytes, to which the -wal file of a busy log is preallocated: the size at which the signer
// has SQLite checkpoint it. fsync takes half as long where the file does not grow. SQLite ignores the zeros after its
// frames, like the older frames that are there after each checkpoint
// (https://sqlite.org/fileformat2.html#walformat).
const walSize = 1000 * (4096 + 24)

// busyFlushes is the number of flushes after which a log counts as busy: one run on the command line has two.
const busyFlushes = 8

// preallocateWAL grows the -wal file of a busy log, once, and returns the file if it has grown. Without space on the
// disk, the file stays as it was.
func (l *logFile) preallocateWAL() *os.File {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	w, wal := &l.w, l.disk.busyWAL()
	if w.preallocated || wal == nil || len(l.queue) > 0 || w.ensureReady(l) != nil {
		return nil
	}
	if _, err := w.beginStmt.Exec(); err != nil { // without the lock, another process could grow it meanwhile
		return nil
	}
	w.preallocated = true
	if err := w.commitOrRollBack(preallocate(wal, walSize)); err != nil {
		return nil
	}
	return wal
}

// preallocate appends zeros to f up to size bytes, or leaves its size unchanged.
func preallocate(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	if _, err = f.WriteAt(make([]byte, size-info.Size()), info.Size()); err != nil {
		if short := f.Truncate(info.Size()); short != nil {
			err = fmt.Errorf("%w, and %v", err, short)
		}
	}
	return err
}
