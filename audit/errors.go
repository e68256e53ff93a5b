package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
)

// Unwritten is the error of entries that are not in the log. Its text names files of this machine; UnwrittenText is for
// other users.
type Unwritten struct{ err error }

// UnwrittenText is an Unwritten without details.
const UnwrittenText = "the audit log can't be written at the moment, and nothing is done without a record"

// NotWritten wraps err, the reason why entries are not in a log, as an *Unwritten.
func NotWritten(err error) error { return &Unwritten{err} }

func (u *Unwritten) Error() string { return u.err.Error() }

func (u *Unwritten) Unwrap() error { return u.err }

// Fault is an error of reading or signing the log. Its text names files of this machine; FaultText is for other users.
type Fault struct{ err error }

// FaultText is a Fault without details.
const FaultText = "the audit log can't be read at the moment"

func (f *Fault) Error() string { return f.err.Error() }

// Unwrap returns the error below.
func (f *Fault) Unwrap() error { return f.err }

var (
	errType     = errors.New("a column has the wrong type")
	errClosed   = errors.New("the log is closed")
	errForeign  = errors.New("it is a database, but not an audit log: name another file")
	errNoSigner = errors.New("the log was opened without a key to sign with")
	errMoved    = errors.New("the file was deleted or replaced while the log was open: find out by whom, then start again")
)

const remedyWritable = "make the file and its directory writable, or set SANDBOXMCP_SQLITE_PATH to a file elsewhere"

// otherVersion returns the error for a log of another format, with a remedy. No format before this one was released.
func otherVersion(version int64) error {
	if version > schema.Version {
		return fmt.Errorf("its format is version %d, and this program knows version %d: use the sandboxmcp that wrote it, or a newer one",
			version, schema.Version)
	}
	return fmt.Errorf("its format is version %d, which no release had, and this program writes version %d: move it away, with its -wal, "+
		"-checkpoint, -owed and -acknowledged files, and a new log starts in its place; only the sandboxmcp that wrote it reads it", version,
		schema.Version)
}

// explain adds the remedy to an error of SQLite or of the file system.
func explain(err error, wait time.Duration) error {
	var s *sqlite.Error
	switch {
	case IsFull(err):
		return fmt.Errorf("%w: %s", err, advice(sqlite3.SQLITE_FULL, wait))
	case errors.As(err, &s):
		if hint := advice(s.Code()&0xff, wait); hint != "" {
			return fmt.Errorf("%w: %s", err, hint)
		}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s", err, remedyWritable)
	}
	return err
}

// IsFull reports whether err says that the disk is full.
func IsFull(err error) bool {
	s, ok := errors.AsType[*sqlite.Error](err) // SQLite's -shm file can't grow on a full disk
	return errors.Is(err, syscall.ENOSPC) || ok && (s.Code()&0xff == sqlite3.SQLITE_FULL || s.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}

// isBusy reports whether err says that another process holds a lock.
func isBusy(err error) bool {
	s, ok := errors.AsType[*sqlite.Error](err)
	return ok && (s.Code()&0xff == sqlite3.SQLITE_BUSY || s.Code()&0xff == sqlite3.SQLITE_PROTOCOL)
}

func advice(code int, wait time.Duration) string {
	switch code {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL:
		return fmt.Sprintf("another process has held its lock for more than %v: see which with fuser, end it, and try again", wait)
	case sqlite3.SQLITE_FULL:
		return "free some disk space, or delete old files of the log: sandboxmcp audit rotate --keep 90d; rows that were acknowledged are safe"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "the file is damaged, or not an audit log: " + schema.Advice
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return remedyWritable
	case sqlite3.SQLITE_IOERR:
		return "the disk or its file system failed: see the system's log, and whether the disk is full"
	}
	return ""
}

// quoteClipped escapes untrusted text for a message, and cuts it after 80 bytes.
func quoteClipped(s string) string { return safetext.Line(safetext.Clip(s, 80)) }
