package audit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

//go:embed schema.sql
var schema string

// The application_id and user_version that the schema sets.
const (
	schemaID      = 0x73626d61
	schemaVersion = 3
)

// find returns the log file at path. If there is none and it may be made, find makes it first.
func find(ctx context.Context, path string, make bool) (os.FileInfo, error) {
	statefile.Tidy(filepath.Dir(path), newKind, statefile.Abandoned)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && make {
		if err := create(ctx, path, ""); err != nil {
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

// create makes a new log at path, whole, unless there is one. It begins with what statements insert.
func create(ctx context.Context, path, statements string) error {
	text := schema + fmt.Sprintf("\nINSERT INTO dictionary (id, text) VALUES (1, x'%x');\n", pack.Dictionary) + statements
	return statefile.CreateDatabase(ctx, path, newKind, text, func(path string) string { return statefile.Database(path, lockWait) })
}

// newKind is in the name of a log that is being made.
const newKind = "audit"
