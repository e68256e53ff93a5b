package audit

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"
)

// disk tracks which commits are on the disk. A goroutine that waits for it does not block writers: commits made
// meanwhile are flushed next, for all who wait by then.
type disk struct {
	commits atomic.Int64          // that were made, under writeMu
	on      atomic.Int64          // that are on the disk
	failed  atomic.Pointer[error] // what became of the disk

	mu    sync.Mutex // held by who waits for the disk
	wal   *os.File   // what a commit writes to
	waits int        // how often the disk was waited for
}

func (d *disk) failure() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// flush puts all commits up to a number on the disk, as SQLite would after each commit with synchronous=FULL. After a
// failure the state of the disk is unknown, and nothing more is written.
func (d *disk) flush(l *Log, commit int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on.Load() >= commit {
		return nil
	}
	if err := d.failure(); err != nil {
		return err
	}
	made := d.commits.Load()
	var err error
	if d.wal == nil {
		d.wal, err = os.OpenFile(l.path+"-wal", os.O_RDWR, 0)
	}
	if err == nil {
		err = l.sync(d.wal)
	}
	if d.waits++; err != nil {
		d.failed.Store(&err)
		return err
	}
	d.on.Store(made)
	return nil
}

// waited reports whether a goroutine waits for the disk now.
func (d *disk) waited() bool {
	free := d.mu.TryLock()
	if free {
		d.mu.Unlock()
	}
	return !free
}

// settle flushes the commits of this and other processes: signed rows must not be lost.
func (d *disk) settle(l *Log) error {
	if _, err := os.Stat(l.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return d.failure() // all is in the log's own file
	}
	return d.flush(l, math.MaxInt64)
}

// often returns the -wal file of a log that is written to often, or nil.
func (d *disk) often() *os.File {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits < oftenFlushed {
		return nil
	}
	return d.wal
}

func (d *disk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wal.Close() // of nil, too
}
