package audit

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// segmentWriter writes a segment file under a temporary name.
type segmentWriter struct {
	file *os.File
	sum  hash.Hash
	buf  *bufio.Writer
	zip  *gzip.Writer
}

// tempPrefix begins the name of a segment file that is being written.
const tempPrefix = ".new-"

func newSegmentWriter(dir string) (*segmentWriter, error) {
	f, err := os.CreateTemp(dir, tempPrefix+"*") // 0600
	if err != nil {
		return nil, err
	}
	w := &segmentWriter{file: f, sum: sha256.New()}
	w.buf = bufio.NewWriterSize(io.MultiWriter(f, w.sum), 256<<10)
	w.zip = gzip.NewWriter(w.buf)
	return w, nil
}

func (w *segmentWriter) row(r Row, receipt []byte) error {
	if err := w.line(r); err != nil || len(receipt) == 0 {
		return err
	}
	return w.line(receiptLine{r.Seq, receipt})
}

func (w *segmentWriter) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.zip.Write(append(b, '\n'))
	return err
}

// finish writes the end, waits for the disk, and returns the file's SHA-256.
func (w *segmentWriter) finish(end endLine) (sum string, err error) {
	err = w.line(end)
	err = errors.Join(err, w.zip.Close(), w.buf.Flush(), w.file.Sync(), w.file.Close())
	return hex.EncodeToString(w.sum.Sum(nil)), err
}

// tidy removes files that killed processes left in the directory: files unfinished for an hour, and segments whose rows
// are all still in the database. The caller holds the lock, so no other process is just putting a segment there.
func (l *Log) tidy(ctx context.Context, q querier) error {
	files, err := os.ReadDir(l.segmentDir())
	if err != nil {
		return err
	}
	known, err := l.segments(ctx, q, 0)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, s := range known {
		ours[filepath.Base(s.File)] = true
	}
	for _, f := range files {
		path := filepath.Join(l.segmentDir(), f.Name())
		var first, last int64
		switch n, _ := fmt.Sscanf(f.Name(), "%020d-%020d.jsonl.gz", &first, &last); {
		case strings.HasPrefix(f.Name(), tempPrefix):
			if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
				os.Remove(path)
			}
		case n != 2 || ours[f.Name()]:
		default:
			if err := l.removeDouble(ctx, q, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeDouble removes a segment file that the log does not know, if each of its rows is in the database.
func (l *Log) removeDouble(ctx context.Context, q querier, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := readSegmentRows(f)
	if err == nil && c.bad == nil {
		first, last := c.rows[0], c.rows[len(c.rows)-1]
		var double bool // the hash of the last row vouches for those before
		double, err = one[bool](ctx, q, "SELECT EXISTS (SELECT 1 FROM audit WHERE seq = ?) AND EXISTS (SELECT 1 FROM audit WHERE seq = ? AND lower(hex(hash)) = ?)", first.Seq, last.Seq, last.Hash)
		if err == nil && double {
			return os.Remove(path)
		}
	}
	if err != nil && !errors.Is(err, errSegment) && !errors.Is(err, ErrNoSegment) {
		return err
	}
	return fmt.Errorf("%s is no segment of this log, or the only one that has its rows: move it away", path)
}
