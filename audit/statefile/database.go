package statefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DataSource returns the driver's data source name of a SQLite database, whose calls wait this long for locks. mode=rw
// keeps SQLite from creating a file. SQLite's own default for synchronous is FULL.
func DataSource(path string, wait time.Duration, parameters ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/...
		path = "/" + path
	}
	u := url.URL{Scheme: "file", Path: path}
	all := append([]string{"mode=rw", fmt.Sprintf("_pragma=busy_timeout(%d)", wait.Milliseconds())}, parameters...)
	return u.String() + "?" + strings.Join(all, "&")
}

// CreateDatabase creates a SQLite database of mode 0600 with a schema, as Create does. address returns its data source
// name.
func CreateDatabase(ctx context.Context, path, kind, schema string, address func(path string) string) error {
	return Create(path, kind, func(fresh string) error {
		if err := os.WriteFile(fresh, nil, 0o600); err != nil { // SQLite would use mode 0644
			return err
		}
		db, err := sql.Open("sqlite", address(fresh))
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, schema)
		return errors.Join(err, db.Close())
	})
}
