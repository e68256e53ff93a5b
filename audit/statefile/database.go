package statefile

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Database returns the address of a SQLite database for the driver, whose calls wait this long for other processes. mode=rw keeps SQLite
// from making a file. SQLite's own default for synchronous is FULL.
func Database(path string, wait time.Duration, parameters ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/...
		path = "/" + path
	}
	u := url.URL{Scheme: "file", Path: path}
	all := append([]string{"mode=rw", fmt.Sprintf("_pragma=busy_timeout(%d)", wait.Milliseconds())}, parameters...)
	return u.String() + "?" + strings.Join(all, "&")
}
