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

// disk tracks which commits are on the disk. A goroutine that waits for it does not block writers: commits made
// meanwhile are flushed next, for all who wait by then.
type disk struct {
	commits atomic.Int64                // that were made, under writeMu
	flushed atomic.Int64                // that are on the disk
	failed  atomic.Pointer[error]       // what became of the disk
	last    atomic.Pointer[rowPosition] // row of the last commit

	mu           sync.Mutex // held by who waits for the disk
	wal          *os.File   // what a commit writes to
	acknowledged *os.File   // has the last row that is on the disk
	flushes      int        // how often the disk was waited for
}

func (d *disk) failure() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// flush puts all commits up to a number on the disk, as SQLite would after each commit with synchronous=FULL. After a
// failure the state of the disk is unknown, and nothing more is written.
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

// isFlushing reports whether a goroutine waits for the disk now.
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
		return d.failure() // all is in the log's own file
	}
	return d.flush(l, math.MaxInt64)
}

// busyWAL returns the -wal file of a log that is written to often, or nil.
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
	d.wal.Close() // of nil, too
	d.acknowledged.Close()
}

// walSize is the size, in bytes, to which the -wal file of a busy log is preallocated: the size at which the signer
// has SQLite checkpoint it. fsync takes half as long where the file does not grow. SQLite finds zeros behind its
// frames, as it finds older frames there after each checkpoint: nothing that is valid
// (https://sqlite.org/fileformat2.html#walformat).
const walSize = 1000 * (4096 + 24)

// busyFlushes is the number of waits for the disk after which a log counts as busy: one run on the command line
// has two.
const busyFlushes = 8

// preallocateWAL grows the -wal file of a busy log, once, and returns the file if it has grown. Where the disk has no
// space, the file is left as it was.
func (l *logFile) preallocateWAL() *os.File {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	w, wal := &l.w, l.disk.busyWAL()
	if w.preallocated || wal == nil || len(l.queue) > 0 || w.ensureReady(l) != nil {
		return nil
	}
	if _, err := w.beginStmt.Exec(); err != nil { // without the lock, another process might make it longer meanwhile
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
