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

// probeEvery is the time for which a probe of the disk counts, and scarce the bytes below which the disk is not trusted
// to have room for a row.
const (
	probeEvery = time.Second
	minFree    = 64 << 10
)

// writability is what is known of whether rows can be written.
type writability struct {
	lastError atomic.Pointer[error] // why the last write of rows failed
	lastProbe atomic.Int64          // when that was last tried, in nanoseconds since opened
}

// recordWrite keeps whether a write of rows has failed, for another reason than what it was to write.
func (c *writability) recordWrite(err error) {
	switch {
	case err == nil && c.lastError.Load() != nil:
		c.lastError.Store(nil)
	case err != nil && !isBusy(err) && !errors.Is(err, errRotated):
		c.lastError.Store(&err)
	}
}

// Writable returns why no row can be written now, or nil. It writes nothing as long as rows can be written and the disk
// has room. Where the disk has failed, the log is opened anew.
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
	tried := short && failed // by a row, which needs more room than a probe
	if !tried && (last == 0 || now-last >= int64(probeEvery)) && l.writability.lastProbe.CompareAndSwap(last, now) {
		l.probeWrite()
	}
	if err := l.writability.lastError.Load(); err != nil {
		return fmt.Errorf("audit log %q can't be written: %w", l.path, explain(*err, l.wait))
	}
	return nil
}

// probeWrite tries to write what a row would need, and changes nothing: the version of the format is written once more.
// Where others write now, it is their rows that tell.
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
