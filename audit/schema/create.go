// Package schema creates the database of a log file, and compares the schema of one with a new one.
package schema

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Text is the statements that create the tables.
//
//go:embed schema.sql
var Text string

// The application_id and user_version that the schema sets.
const (
	ID      = 0x73626d61
	Version = 3
)

// OpenOrCreate returns the log file at path. If make is set, it creates a missing file.
func OpenOrCreate(ctx context.Context, path string, make bool) (os.FileInfo, error) {
	statefile.RemoveAbandoned(filepath.Dir(path), TempKind, statefile.AbandonedAge)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && make {
		if err := Create(ctx, path, ""); err != nil {
			return nil, err
		}
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a directory: name a file in it")
	case info.Size() == 0: // Create leaves no empty file, and SQLite would use it as a new database
		return nil, errEmpty
	}
	return info, nil
}

// Create creates a log at path atomically, unless there is one, and executes statements in it.
func Create(ctx context.Context, path, statements string) error {
	text := Text + fmt.Sprintf("\nINSERT INTO dictionary (id, text) VALUES (1, x'%x');\n", pack.Dictionary) + statements
	return statefile.CreateDatabase(ctx, path, TempKind, text, func(path string) string { return statefile.DataSource(path, LockWait) })
}

// Advice is the remedy for a damaged log.
const Advice = "move it, its -wal and the log's -checkpoint and -acknowledged files away as evidence; a log of one file starts anew in " +
	"its place, or put a backup there; " +
	"what is whole of it is read by sandboxmcp audit export --damaged --format jsonl FILE"

var errEmpty = errors.New("the file is empty, which a log never is: " + Advice)

// LockWait is the longest wait of a call for other processes. They hold the lock for milliseconds; a process that is
// stopped in a debugger would hold it forever.
const LockWait = 10 * time.Second

// TempKind is in the name of a log that is being created.
const TempKind = "audit"
