package audit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Segment is a file of sealed rows.
type Segment struct {
	First  int64  `json:"first"`  // Seq of its first row
	Last   int64  `json:"last"`   // and of its last
	File   string `json:"file"`   // its path
	SHA256 string `json:"sha256"` // of the file, hex
	Here   bool   `json:"here"`   // the file is in its place

	head string // hash of the last row
}

// A segment file is gzip over lines of JSON: each row as Row encodes it, a receipt behind the row
// that it belongs to, and at the end what proves them.
type (
	receiptLine struct {
		Seq      int64  `json:"receipt_of"`
		Envelope []byte `json:"envelope"`
	}
	endLine struct {
		Checkpoint string   `json:"checkpoint"` // at the last row, signed
		Before     [][]byte `json:"before"`     // edge of the tree over the rows before the first
	}
)

// maxLine is more than a row of maxData takes once each byte of it is escaped.
const maxLine = 8 << 20

func (l *Log) segmentDir() string { return l.path + "-segments" }

func (l *Log) segmentPath(first, last int64) string {
	return filepath.Join(l.segmentDir(), fmt.Sprintf("%020d-%020d.jsonl.gz", first, last))
}

// Segments lists the sealed segments, oldest first.
func (l *Log) Segments(ctx context.Context) ([]Segment, error) {
	list, err := l.segments(ctx, l.db)
	if err != nil {
		return nil, l.readError(err)
	}
	return list, nil
}

func (l *Log) segments(ctx context.Context, q querier) (list []Segment, err error) {
	rows, err := q.QueryContext(ctx, "SELECT first, last, hash, sha256 FROM segments ORDER BY first")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s Segment
		var head, sum []byte
		if err := rows.Scan(&s.First, &s.Last, &head, &sum); err != nil {
			return nil, err
		}
		s.File, s.SHA256, s.head = l.segmentPath(s.First, s.Last), hex.EncodeToString(sum), hex.EncodeToString(head)
		_, err := os.Stat(s.File)
		s.Here = err == nil
		list = append(list, s)
	}
	return list, rows.Err()
}

// segmentReader reads the rows of a segment file one by one.
type segmentReader struct {
	file  *bufio.Reader
	lines *bufio.Reader // of what is compressed in it
	ahead []byte        // the line after the last row
	end   endLine       // once Next has returned io.EOF
}

var errSegment = errors.New("it is not a whole segment file")

func newSegmentReader(r io.Reader) (*segmentReader, error) {
	file := bufio.NewReader(r) // which gzip reads no further than it has to
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, errSegment
	}
	z.Multistream(false) // nothing is hidden behind the end
	s := &segmentReader{file: file, lines: bufio.NewReaderSize(z, 64<<10)}
	return s, s.advance()
}

// next returns a row and its receipt, and io.EOF after the last.
func (s *segmentReader) next() (r Row, receipt []byte, err error) {
	if !bytes.HasPrefix(s.ahead, []byte(`{"seq":`)) {
		return r, nil, s.finish()
	}
	if err := exact(s.ahead, &r); err != nil {
		return r, nil, err
	}
	if err := s.advance(); err != nil {
		return r, nil, err
	}
	if bytes.HasPrefix(s.ahead, []byte(`{"receipt_of":`)) {
		var line receiptLine
		if err := exact(s.ahead, &line); err != nil || line.Seq != r.Seq {
			return r, nil, errSegment
		}
		return r, line.Envelope, s.advance()
	}
	return r, nil, nil
}

func (s *segmentReader) advance() error {
	s.ahead = s.ahead[:0]
	for {
		part, err := s.lines.ReadSlice('\n')
		s.ahead = append(s.ahead, part...)
		switch {
		case err == nil:
			s.ahead = s.ahead[:len(s.ahead)-1]
			return nil
		case err != bufio.ErrBufferFull || len(s.ahead) > maxLine:
			return errSegment
		}
	}
}

// finish reads the last line, behind which nothing may be.
func (s *segmentReader) finish() error {
	if err := exact(s.ahead, &s.end); err != nil {
		return err
	}
	for _, r := range []*bufio.Reader{s.lines, s.file} {
		if _, err := r.ReadByte(); err != io.EOF {
			return errSegment
		}
	}
	return io.EOF
}

// exact decodes a line that was written by encoding v, and no other spelling of it: two readers
// must not be able to see different things in it.
func exact(line []byte, v any) error {
	if err := json.Unmarshal(line, v); err != nil {
		return errSegment
	}
	again, err := json.Marshal(v)
	if err != nil || !bytes.Equal(again, line) {
		return errSegment
	}
	return nil
}

// edge is the tree over the rows before the segment.
func (e endLine) edge(size int64) (tree, error) {
	t := tree{size: size}
	for _, b := range e.Before {
		h, err := asHash(b)
		if err != nil {
			return t, errSegment
		}
		t.edge = append(t.edge, h)
	}
	if len(t.edge) != len(edgeNodes(size)) {
		return t, errSegment
	}
	return t, nil
}

func (t tree) before() (hashes [][]byte) {
	for _, h := range t.edge {
		hashes = append(hashes, h[:])
	}
	return hashes
}

// readSegmentRows calls do for the rows of a segment file until it returns false. Each row follows on the
// one before and has the receipt that it speaks of.
func readSegmentRows(f io.Reader, do func(r Row, receipt []byte) bool) (end endLine, bad *Bad, err error) {
	s, err := newSegmentReader(f)
	if err != nil {
		return end, nil, err
	}
	var c *chain
	for {
		r, receipt, err := s.next()
		if err == io.EOF && c != nil {
			return s.end, nil, nil
		} else if err != nil {
			return end, nil, errSegment
		}
		if c == nil {
			if !isHash(r.Prev) {
				return end, nil, errSegment
			}
			c = &chain{next: r.Seq, head: r.Prev, prev: r.Prev}
		}
		if bad := c.add(r); bad != nil {
			return end, bad, nil
		}
		if sum := sha256.Sum256(receipt); len(receipt) > 0 != (receiptHash(r.Data) != nil) || len(receipt) > 0 && !bytes.Equal(sum[:], receiptHash(r.Data)) {
			return end, &Bad{r.Seq, "has another receipt than the one it came with"}, nil
		}
		if !do(r, receipt) {
			return end, nil, nil
		}
	}
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == hashSize && hex.EncodeToString(b) == s
}
