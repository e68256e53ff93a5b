package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// logFile is an open file of a log.
type logFile struct {
	base    string      // path of the log
	path    string      // of this file
	number  int         // 1 for the first
	first   int64       // number of its first row, also while the file is empty
	file    os.FileInfo // of path when it was opened
	alone   bool        // no other process can open it
	damaged bool        // unreadable rows are skipped
	db      *sql.DB
	wait    time.Duration // longest wait for a lock
	now     func() time.Time
	sync    func(*os.File) error // flushes a file to the disk

	writeMu       sync.Mutex  // held while rows are written
	writerWaiting atomic.Bool // the writer goroutine waits for writeMu
	w             writer      // guarded by writeMu
	disk          disk
	flushTimer    *time.Timer // fires when Soon commits must be flushed; set under writeMu

	signer    *signer      // nil if nothing is signed
	unsigned  atomic.Int64 // rows appended through this file since the last try to sign
	lastWrite atomic.Int64 // when the last of them was written, in nanoseconds since opened
	opened    time.Time
	wake      chan struct{} // signalled when there are rows to sign

	requestQueue
	full        atomic.Bool                // the signer does not fold the -wal file: the disk has no space
	packed      atomic.Pointer[pack.Codec] // nil until the first row is read or written
	writability writability
}

// requestQueue has the callers' requests to the writer goroutine.
type requestQueue struct {
	queue              chan *request // append
	checkpointRequests chan *request // checkpointNow
	written            chan struct{} // closed when the writer has ended
	mu                 sync.RWMutex  // guards closed: requests are queued or written before close
	closed             bool
}

// openFile opens the file of a number, and adds it to files. It creates a missing first file. An active file can be
// signed.
func (l *Log) openFile(ctx context.Context, number int, active bool) (*logFile, error) {
	f := l.newFile(fileName(l.path, number), number)
	if active && l.signing != nil {
		f.signer = &signer{Signing: *l.signing}
	}
	if err := f.connect(ctx); err != nil {
		return nil, err
	}
	l.files[number] = f
	go f.runWriter()
	return f, nil
}

func (l *Log) newFile(path string, number int) *logFile {
	f := &logFile{
		base: l.path, path: path, number: number, wait: l.wait, alone: l.exclusive,
		now: func() time.Time { return l.now() }, sync: func(f *os.File) error { return l.sync(f) },
		requestQueue: requestQueue{queue: make(chan *request, 256), checkpointRequests: make(chan *request), written: make(chan struct{})},
		flushTimer:   time.NewTimer(flushDelay), opened: time.Now(), wake: make(chan struct{}, 1),
	}
	f.flushTimer.Stop()
	return f
}

func (l *logFile) connect(ctx context.Context) (err error) {
	if l.file, err = schema.OpenOrCreate(ctx, l.path, l.number == 1); err != nil {
		return err
	}
	if l.db, err = sql.Open("sqlite", l.dataSourceName()); err != nil {
		return err
	}
	err = l.checkFormat(ctx)
	if l.first = 1; err == nil && l.number > 1 {
		l.first, err = statefile.One[int64](ctx, l.db, "SELECT coalesce(min(seq), 1) FROM audit")
		if l.damaged && isContentError(err) {
			l.first, err = 1, nil
		}
	}
	if err != nil {
		l.db.Close()
	}
	return err
}

// checkFormat refuses a database of another application or format.
func (l *logFile) checkFormat(ctx context.Context) error {
	id, err := statefile.One[int64](ctx, l.db, "PRAGMA application_id")
	if err != nil {
		return err
	}
	if id != schema.ID {
		return errForeign
	}
	version, err := statefile.One[int64](ctx, l.db, "PRAGMA user_version")
	if err == nil && version != schema.Version {
		err = otherVersion(version)
	}
	return err
}

// close waits for running appends, signs the appended rows, and closes the file.
func (l *logFile) close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	<-l.written
	err := l.db.Close()
	if l.signer != nil {
		if unsigned := l.signer.err; unsigned != nil {
			err = errors.Join(fmt.Errorf("sign audit log %q: %w", l.path, unsigned), err)
		}
	}
	return err
}
