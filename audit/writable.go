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
	scarce     = 64 << 10
)

// condition is what is known of whether rows can be written.
type condition struct {
	refused atomic.Pointer[error] // why the last write of rows failed
	probed  atomic.Int64          // when that was last tried, in nanoseconds since opened
}

// note keeps whether a write of rows has failed, for another reason than what it was to write.
func (c *condition) note(err error) {
	switch {
	case err == nil && c.refused.Load() != nil:
		c.refused.Store(nil)
	case err != nil && !busy(err) && !errors.Is(err, errRotated):
		c.refused.Store(&err)
	}
}

// Writable returns why no row can be written now, or nil. It writes nothing as long as rows can be written and the disk
// has room. Where the disk has failed, the log is opened anew.
func (l *Log) Writable() error {
	f, err := l.usable(context.Background())
	if err != nil {
		return fmt.Errorf("audit log %q can't be written: %w", l.path, err)
	}
	return f.writable()
}

func (l *logFile) writable() error {
	room := statefile.Free(filepath.Dir(l.path))
	short, failed := room >= 0 && room < scarce, l.condition.refused.Load() != nil
	if !short && !failed {
		return nil
	}
	now, last := int64(time.Since(l.opened)), l.condition.probed.Load()
	tried := short && failed // by a row, which needs more room than a probe
	if !tried && (last == 0 || now-last >= int64(probeEvery)) && l.condition.probed.CompareAndSwap(last, now) {
		l.probe()
	}
	if err := l.condition.refused.Load(); err != nil {
		return fmt.Errorf("audit log %q can't be written: %w", l.path, explain(*err, l.wait))
	}
	return nil
}

// probe tries to write what a row would need, and changes nothing: the version of the format is written once more.
// Where others write now, it is their rows that tell.
func (l *logFile) probe() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed || !l.writeMu.TryLock() {
		return
	}
	defer l.writeMu.Unlock()
	err := l.w.ready(l)
	if err == nil {
		_, err = l.w.lock.Exec()
	}
	if busy(err) {
		return
	}
	if err == nil {
		_, err = l.w.conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA user_version = %d", schema.Version))
		err = l.w.end(err)
	}
	l.condition.note(err)
}
