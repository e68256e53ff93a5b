package vault

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

//go:embed sealed.sql
var schema string

// The application_id and user_version that sealed.sql sets.
const (
	schemaID      = 0x73626d76
	schemaVersion = 1
	pageSize      = 4096
)

// tempKind is in the name of a database that is being created.
const tempKind = "vault"

// lockWait bounds a call's wait for other processes, which hold the lock for milliseconds.
const lockWait = 10 * time.Second

// createDatabase makes the database, if there is none.
func (s *Sealed) createDatabase(ctx context.Context) error {
	if _, err := os.Stat(s.databasePath()); !errors.Is(err, fs.ErrNotExist) {
		return nil // the calls that follow report other faults
	}
	statefile.RemoveAbandoned(s.dir, tempKind, statefile.AbandonedAge)
	err := statefile.CreateDatabase(ctx, s.databasePath(), tempKind, schema, dataSourceName)
	return s.explainError(err)
}

// readDatabase calls f with the database, or returns ErrNotFound if there is none.
func (s *Sealed) readDatabase(ctx context.Context, f func(*sql.DB) error) error {
	if _, err := os.Stat(s.databasePath()); errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	db, err := sql.Open("sqlite", dataSourceName(s.databasePath()))
	if err != nil {
		return err
	}
	defer db.Close()
	err = cmp.Or(s.checkSchema(ctx, db), s.checkSize())
	if err == nil {
		err = f(db)
	}
	return s.explainError(err)
}

// checkSize finds a file that was cut off within a page, of which SQLite would read the rest as zeros.
func (s *Sealed) checkSize() error {
	info, err := os.Stat(s.databasePath())
	if err == nil && info.Size()%pageSize != 0 {
		err = fmt.Errorf("%q was cut off: put a backup back", s.databasePath())
	}
	return err
}

// changeDatabase calls f with the database locked for other writers, and makes f's changes durable unless it fails. A
// damaged database is not changed. It returns ErrNotFound if there is none.
func (s *Sealed) changeDatabase(ctx context.Context, f func(*sql.Tx) error) error {
	return s.readDatabase(ctx, func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		var verdict string
		if err := tx.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			return fmt.Errorf("%q is damaged, %s: put a backup back, or move it away and add the secrets again", s.databasePath(), verdict)
		}
		if err := s.removeUnusedKey(ctx, tx); err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// checkSchema refuses a database of another format. For an empty file, SQLite reports version 0.
func (s *Sealed) checkSchema(ctx context.Context, db *sql.DB) error {
	var id, version int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch {
	case id != schemaID:
		return fmt.Errorf("%q is not a vault: put a backup back, or move it away", s.databasePath())
	case version < schemaVersion:
		return fmt.Errorf("the format of %q is version %d, which no release had, and this program knows version %d: move it away and add the "+
			"secrets again",
			s.databasePath(), version, schemaVersion)
	case version > schemaVersion:
		return fmt.Errorf("the format of %q is version %d, and this program knows version %d: use the newer sandboxmcp",
			s.databasePath(), version, schemaVersion)
	}
	return nil
}

// dataSourceName names the database for the driver. There is no write-ahead log: with one, readers would create files.
// EXTRA is needed because FULL without a write-ahead log can lose a commit in a power failure. secure_delete overwrites
// deleted content.
func dataSourceName(path string) string {
	return statefile.DataSource(path, lockWait, "_txlock=immediate", "_pragma=synchronous(extra)", "_pragma=secure_delete(on)")
}

// explainError adds to an error of SQLite or of the file system the name of the file and the remedy.
func (s *Sealed) explainError(err error) error {
	var e *sqlite.Error
	advice := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		advice = "free some disk space; nothing was changed"
	case !errors.As(err, &e):
		return err
	default:
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_BUSY:
			advice = fmt.Sprintf("another process has held its lock for %v: end it", lockWait)
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR:
			advice = "the file is damaged, or not a vault: put a backup back, or move it away and add the secrets again"
		case sqlite3.SQLITE_FULL:
			advice = "free some disk space; nothing was changed"
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			advice = "make the file and its directory writable"
		case sqlite3.SQLITE_IOERR:
			advice = "the disk or its file system failed: see the system's log"
		default:
			return err
		}
	}
	return fmt.Errorf("%q: %w: %s", s.databasePath(), err, advice)
}
