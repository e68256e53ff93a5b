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
var schema string

// The application_id and user_version that the schema sets.
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
	return statefile.CreateDatabase(ctx, path, newKind, schema, func(path string) string { return statefile.Database(path, lockWait) })
}

// newKind is in the name of a log that is being made.
const newKind = "audit"
