package audit

import (
	"fmt"
	"os"
)

// walSize is the size, in bytes, to which the -wal file of a busy log is preallocated: the size at which the signer
// has SQLite checkpoint it. fsync takes half as long where the file does not grow. SQLite finds zeros behind its
// frames, as it finds older frames there after each checkpoint: nothing that is valid
// (https://sqlite.org/fileformat2.html#walformat).
const walSize = 1000 * (4096 + 24)

// oftenFlushed is the number of waits for the disk after which a log counts as busy: one run on the command line
// has two.
const oftenFlushed = 8

// preallocateOnce grows the -wal file of a busy log, once. Where the disk has no space, the file is left as it was.
func (l *Log) preallocateOnce() {
	if wal := l.preallocateWAL(); wal != nil {
		_ = l.sync(wal) // or else it would be on the path of the next row, whose own error shows what is wrong
	}
}

// preallocateWAL returns the file if it has grown.
func (l *Log) preallocateWAL() *os.File {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
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
