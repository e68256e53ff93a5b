package audit

import (
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

//go:embed schema.sql
var schema string // version 1

//go:embed schema2.sql
var schema2 string // what makes it version 2

// The application_id and user_version that the schemas set.
const (
	schemaID      = 0x73626d61
	schemaVersion = 2
)

// find returns the log file at path, and makes it first if there is none.
func find(ctx context.Context, path string) (os.FileInfo, error) {
	statefile.Tidy(filepath.Dir(path), newKind, statefile.Abandoned)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(ctx, path); err != nil {
			return nil, err
		}
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a directory: name a file in it")
	case info.Size() == 0: // create leaves no empty file, and SQLite would take it for a new database
		return nil, errEmpty
	}
	return info, nil
}

// create makes a new log at path, whole, unless there is one.
func create(ctx context.Context, path string) error {
	return statefile.CreateDatabase(ctx, path, newKind, schema+schema2, func(path string) string { return statefile.Database(path, lockWait) })
}

// newKind is in the name of a log that is being made.
const newKind = "audit"

// upgrade migrates a log from version 1 to version 2 in one transaction: a killed process has changed nothing, and of
// several processes the first does it. A program of version 1 that has the log open may go on appending: its table
// does not change.
func (l *Log) upgrade(ctx context.Context) error {
	var w writer
	defer w.close()
	if err := w.begin(l); err != nil {
		return err
	}
	version, err := one[int64](ctx, w.conn, "PRAGMA user_version")
	if err == nil && version == 1 {
		_, err = w.conn.ExecContext(ctx, schema2)
	}
	return w.end(err)
}
