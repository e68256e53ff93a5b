package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// OpenDamaged is OpenFiles for files that SQLite reports as damaged. Nothing is written to them. [Log.Rows] yields the
// readable rows, and an error that names the others.
func OpenDamaged(ctx context.Context, paths ...string) (*Log, error) {
	return openFiles(ctx, true, paths)
}

// dataSourceName names the database for the driver. With writable_schema SQLite opens a file that is shorter than its
// header says
// (https://sqlite.org/pragma.html#pragma_writable_schema), and by mode=ro it leaves the file and its -wal file as they
// are. Without a -wal file, immutable keeps SQLite from creating one.
func (l *logFile) dataSourceName() string {
	address := statefile.DataSource(l.path, l.wait)
	if l.alone {
		address += "&vfs=" + statefile.ExclusiveVFS
	}
	if l.damaged {
		address = strings.Replace(address, "mode=rw", "mode=ro", 1) + "&_pragma=writable_schema(1)"
		if _, err := os.Lstat(l.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
			address += "&immutable=1"
		}
	}
	return address
}

// maxLost is the number of consecutive unreadable rows after which reading stops, if the last row is unknown.
const maxLost = 10_000

// eachReadable is each for a damaged file.
func (l *logFile) eachReadable(ctx context.Context, f Filter, do func(Row) bool) (more bool, err error) {
	head, headErr := lastSeq(ctx, l.db)
	var lost gaps
	for from, tried := f.After+1, int64(0); ; {
		page, err := l.readPage(ctx, f, from, pageRows, false)
		for _, r := range page {
			if f.contains(r.Data) && !do(r.Row) {
				return false, nil
			}
			from, tried = r.Seq+1, 0
		}
		switch {
		case err != nil && !isContentError(err):
			return true, err
		case err == nil && len(page) == 0, headErr != nil && tried > maxLost, headErr == nil && from > head:
			return true, lost.asError(headErr != nil)
		case err != nil:
			lost.addSeq(from)
			from, tried = from+1, tried+1
		}
	}
}

// gaps are ranges of numbers, from the first to the last.
type gaps [][2]int64

func (g *gaps) addSeq(seq int64) {
	if n := len(*g); n > 0 && (*g)[n-1][1] == seq-1 {
		(*g)[n-1][1] = seq
		return
	}
	*g = append(*g, [2]int64{seq, seq})
}

// asError returns an error that names the unreadable rows, or nil. If the last row is unknown (open), the last gap has
// no end.
func (g gaps) asError(open bool) error {
	var all []string
	for i, gap := range g {
		switch {
		case open && i == len(g)-1:
			all = append(all, fmt.Sprintf("all from %d on", gap[0]))
		case gap[0] == gap[1]:
			all = append(all, fmt.Sprint(gap[0]))
		default:
			all = append(all, fmt.Sprintf("%d to %d", gap[0], gap[1]))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("these rows can't be read: %s", strings.Join(all, ", "))
}
