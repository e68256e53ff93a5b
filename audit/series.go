package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// OpenFiles opens files of a log, in order, for reading, such as files that were moved away. It creates nothing.
func OpenFiles(ctx context.Context, paths ...string) (*Log, error) {
	return openFiles(ctx, false, paths)
}

func openFiles(ctx context.Context, damaged bool, paths []string) (*Log, error) {
	l := &Log{wait: schema.LockWait, now: time.Now, sync: statefile.SyncData, rotating: make(chan struct{}, 1)}
	for i, path := range paths {
		path, err := filepath.Abs(path)
		if l.path == "" {
			l.path = path
		}
		f := l.newFile(path, i+2) // a number above 1, so that it is not created, and may start with any row
		f.damaged = damaged
		if err == nil {
			err = f.connect(ctx)
		}
		if n := len(l.named); err == nil && n > 0 && f.first <= l.named[n-1].first {
			err = fmt.Errorf("it begins with row %d, and the file before it with row %d: name the older file first", f.first, l.named[n-1].first)
			f.db.Close()
		}
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("open audit log %q: %w", path, explain(err, schema.LockWait))
		}
		l.named = append(l.named, f)
		go f.runWriter()
	}
	l.active.Store(l.named[len(l.named)-1])
	return l, nil
}

// currentFile returns the active file for reading. Other processes may have rotated to another one.
func (l *Log) currentFile(ctx context.Context) (*logFile, error) {
	for f := l.active.Load(); ; {
		if err := l.recovery.err.Load(); err != nil {
			return nil, *err
		}
		if l.named != nil {
			return f, nil
		}
		if number, err := f.nextNumber(); err != nil {
			return nil, err
		} else if _, err := os.Lstat(fileName(l.path, number)); err != nil {
			return f, nil
		}
		next, err := l.openNextFile(ctx, f)
		if err != nil {
			return nil, err
		}
		f = next
	}
}

// filesFrom returns the available files that have rows from a number on, and the active one.
func (l *Log) filesFrom(ctx context.Context, from int64) ([]*logFile, error) {
	now, err := l.currentFile(ctx)
	if err != nil || now.first <= from && l.named == nil {
		return []*logFile{now}, err
	}
	all := l.named
	if all == nil {
		if all, err = l.allFiles(ctx); err != nil {
			return nil, err
		}
	}
	start := 0
	for i, f := range all {
		if f.first <= from && f.first > all[start].first {
			start = i
		}
	}
	return all[start:], nil
}

// allFiles opens all files.
func (l *Log) allFiles(ctx context.Context) (files []*logFile, err error) {
	numbers, err := fileNumbers(l.path)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	active := l.active.Load()
	for _, n := range numbers {
		if n >= active.number {
			break
		}
		f := l.files[n]
		if f == nil && !l.closed {
			f, err = l.openFile(ctx, n, false)
		} else if f == nil {
			err = errClosed
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fileName(l.path, n), err)
		}
		files = append(files, f)
	}
	return append(files, active), nil
}

// treeReader returns a reader of the tree, for rows from a number on.
func (l *Log) treeReader(ctx context.Context, from int64) (merkle.Reader, error) {
	files, err := l.filesFrom(ctx, max(1, from-1<<merkle.StoredLevel))
	if err != nil {
		return merkle.Reader{}, err
	}
	n := merkle.Reader{Ctx: ctx, Newest: files[len(files)-1].db}
	for _, f := range files[:len(files)-1] {
		n.Older = append(n.Older, f.db)
	}
	return n, nil
}

// recovery is the state after a disk failure.
type recovery struct {
	written atomic.Pointer[Row] // the last flushed row of this Log
	last    time.Time           // time of the last try, guarded by Log.mu
	err     atomic.Pointer[error]
}

// recoverEvery is the interval of tries to reopen a log after a disk failure.
const recoverEvery = time.Second

// usableFile returns the active file. After a disk failure, the page cache may differ from the disk: the file is closed
// and read from the disk again, and used if it has all acknowledged rows, in a valid chain.
func (l *Log) usableFile(ctx context.Context) (*logFile, error) {
	f := l.active.Load()
	if f.disk.failure() == nil && l.recovery.err.Load() == nil {
		return f, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.active.Load(); now != f {
		return now, nil
	}
	if l.closed {
		return nil, errClosed
	}
	if before := l.recovery.err.Load(); before != nil && time.Since(l.recovery.last) < recoverEvery {
		return nil, *before
	}
	why := f.disk.failure()
	fresh, err := l.reopen(ctx, f)
	l.recovery.last = time.Now()
	if err != nil {
		err = fmt.Errorf("the disk failed (%v), and the log can't be used since: %w; it is tried again each second: "+
			"see the system's log, and start again once the disk is sound", why, explain(err, l.wait))
		l.recovery.err.Store(&err)
		return nil, err
	}
	l.active.Store(fresh)
	l.recovery.err.Store(nil)
	if l.signing != nil && l.signing.Log != nil {
		l.signing.Log.Error("the disk failed, and the audit log was opened anew: it has all rows that were acknowledged", "log", l.path, "error",
			why)
	}
	return fresh, nil
}

// reopen closes f, and opens and verifies it again.
func (l *Log) reopen(ctx context.Context, f *logFile) (*logFile, error) {
	_ = f.close() // the rows are verified below
	for _, path := range []string{f.path, f.path + "-wal"} {
		if err := syncAndDropCache(path, l.sync); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	fresh, err := l.openFile(ctx, f.number, true)
	if err != nil {
		return nil, err
	}
	if err := fresh.verifyTail(ctx, l.recovery.written.Load()); err != nil {
		_ = fresh.close()
		return nil, err
	}
	return fresh, nil
}

// syncAndDropCache flushes a file, and drops it from the page cache.
func syncAndDropCache(path string, sync func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := sync(f); err != nil {
		return err
	}
	return statefile.DropCache(f)
}

// verifyTail checks the rows after the newest checkpoint, and that the last acknowledged row exists.
func (l *logFile) verifyTail(ctx context.Context, acknowledged *Row) error {
	c, _, err := newestCheckpoint(ctx, l.db)
	if err != nil {
		return err
	}
	from := max(c.Size, l.first)
	if acknowledged != nil && acknowledged.Seq >= l.first {
		from = min(from, acknowledged.Seq)
	}
	var in *chain
	found := acknowledged == nil || acknowledged.Seq < l.first
	for r, err := range l.rows(ctx, Filter{After: from - 1}) {
		if err != nil {
			return err
		}
		if in == nil {
			in = &chain{next: r.Seq, head: r.Prev, prev: r.Prev}
		}
		if bad := in.verifyRow(r); bad != nil {
			return fmt.Errorf("%v: see sandboxmcp audit verify", bad)
		}
		found = found || r.Seq == acknowledged.Seq && r.Hash == acknowledged.Hash
	}
	if !found {
		return fmt.Errorf("row %d, which was acknowledged, is not on the disk: see sandboxmcp audit verify", acknowledged.Seq)
	}
	return nil
}
