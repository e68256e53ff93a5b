package audit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// probeEvery is the time for which a probe of the disk is valid, and minFree the free bytes below which a row may not
// fit.
const (
	probeEvery = time.Second
	minFree    = 64 << 10
)

// writability is the known state of writing rows.
type writability struct {
	lastError atomic.Pointer[error] // of the last write of rows
	lastProbe atomic.Int64          // time of err last tried, in nanoseconds since opened
}

// recordWrite records the result of a write, unless its rows were the cause of the failure.
func (c *writability) recordWrite(err error) {
	switch {
	case err == nil && c.lastError.Load() != nil:
		c.lastError.Store(nil)
	case err != nil && !isBusy(err) && !errors.Is(err, errRotated):
		c.lastError.Store(&err)
	}
}

// Writable returns an error if no row can be written now. It writes nothing while rows can be written and the disk has
// space. After a disk failure, it reopens the log.
func (l *Log) Writable() error {
	f, err := l.usableFile(context.Background())
	if err != nil {
		return fmt.Errorf("audit log %q can't be written: %w", l.path, err)
	}
	return f.checkWritable()
}

func (l *logFile) checkWritable() error {
	room := statefile.Free(filepath.Dir(l.path))
	short, failed := room >= 0 && room < minFree, l.writability.lastError.Load() != nil
	if !short && !failed {
		return nil
	}
	now, last := int64(time.Since(l.opened)), l.writability.lastProbe.Load()
	tried := short && failed // a failed row needed more space than a probe
	if !tried && (last == 0 || now-last >= int64(probeEvery)) && l.writability.lastProbe.CompareAndSwap(last, now) {
		l.probeWrite()
	}
	if err := l.writability.lastError.Load(); err != nil {
		return fmt.Errorf("audit log %q can't be written: %w", l.path, explain(*err, l.wait))
	}
	return nil
}

// probeWrite tries a write that changes nothing: it sets the format version again. While others write, their rows are
// the test.
func (l *logFile) probeWrite() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed || !l.writeMu.TryLock() {
		return
	}
	defer l.writeMu.Unlock()
	err := l.w.ensureReady(l)
	if err == nil {
		_, err = l.w.beginStmt.Exec()
	}
	if isBusy(err) {
		return
	}
	if err == nil {
		_, err = l.w.conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA user_version = %d", schema.Version))
		err = l.w.commitOrRollBack(err)
	}
	l.writability.recordWrite(err)
}
