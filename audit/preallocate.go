package audit

import (
	"fmt"
	"os"
)

// walSize is how long, in bytes, the -wal file of a log that is written to often is made at once: as long as the
// signer lets it get before it folds it. To put rows on the disk takes half as long where the file does not grow
// with them. SQLite finds zeros behind its frames, as it finds older frames there after each fold: nothing that is valid
// (https://sqlite.org/fileformat2.html#walformat).
const walSize = 1000 * (4096 + 24)

// oftenFlushed is after how many waits for the disk a log counts as one that is written to often: one run on the
// command line has two.
const oftenFlushed = 8

// preallocateOnce makes the -wal file longer where that is worth it, once. A disk that has no room is left as it was.
func (l *Log) preallocateOnce() {
	if wal := l.preallocateWAL(); wal != nil {
		_ = l.sync(wal) // or else it would be on the path of the next row, whose own error shows what is wrong
	}
}

// preallocateWAL returns the file if it is longer now.
func (l *Log) preallocateWAL() *os.File {
	l.pen.Lock()
	defer l.pen.Unlock()
	w, wal := &l.w, l.disk.often()
	if w.preallocated || wal == nil || len(l.queue) > 0 || w.ready(l) != nil {
		return nil
	}
	if _, err := w.lock.Exec(); err != nil { // without the lock, another process might make it longer meanwhile
		return nil
	}
	w.preallocated = true
	if err := w.end(preallocate(wal, walSize)); err != nil {
		return nil
	}
	return wal
}

// preallocate writes zeros behind the end of f, until it has so many bytes, or leaves it as long as it is.
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
