package audit

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite"
)

//go:embed schema.sql
var schema string // version 1

//go:embed schema2.sql
var schema2 string // what makes it version 2

// What they set as application_id and user_version.
const (
	schemaID      = 0x73626d61
	schemaVersion = 2
)

// find returns the log file at path, and makes it first if there is none.
func find(ctx context.Context, path string) (os.FileInfo, error) {
	removeAbandoned(filepath.Dir(path))
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

// create makes a new log at path. It is built under another name and then linked into place, whole:
// of many processes that come first one wins, a process that is killed leaves nothing half made at
// path, and what somebody else put there meanwhile is not replaced.
func create(ctx context.Context, path string) error {
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, newPrefix) // 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	fresh := filepath.Join(dir, "log")
	if err := os.WriteFile(fresh, nil, 0o600); err != nil { // SQLite would give it 0644
		return err
	}
	db, err := sql.Open("sqlite", dsn(fresh, lockWait))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, schema+schema2)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Link(fresh, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

const newPrefix = ".new-audit-"

// removeAbandoned removes what processes left that were killed while they made a log, which takes
// some milliseconds: a directory of a minute ago is nobody's.
func removeAbandoned(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, newPrefix+"*"))
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > time.Minute {
			os.RemoveAll(dir)
		}
	}
}

// dsn names the database for the driver. SQLite's own default for synchronous is FULL; mode=rw keeps
// it from making a file.
func dsn(path string, wait time.Duration) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/...
		path = "/" + path
	}
	u := url.URL{Scheme: "file", Path: path}
	return fmt.Sprintf("%s?mode=rw&_pragma=busy_timeout(%d)", u.String(), wait.Milliseconds())
}

func formatVersion(ctx context.Context, q querier) (version int64, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

// upgrade makes a log of version 1 one of version 2, in one transaction: whoever is killed in it has
// done nothing, and of several that come at once the first does it. A program of version 1 that has
// the log open may go on appending: for its table nothing changes.
func (l *Log) upgrade(ctx context.Context) error {
	var w writer
	defer w.close()
	if err := w.begin(l); err != nil {
		return err
	}
	version, err := formatVersion(ctx, w.conn)
	if err == nil && version == 1 {
		_, err = w.conn.ExecContext(ctx, schema2)
	}
	return w.end(err)
}
