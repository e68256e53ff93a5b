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
	"time"
)

// Segment is a file of sealed rows.
type Segment struct {
	First  int64  `json:"first"`  // Seq of its first row
	Last   int64  `json:"last"`   // and of its last
	File   string `json:"file"`   // its path
	SHA256 string `json:"sha256"` // of the file, hex
	Here   bool   `json:"here"`   // the file is in its place

	// Between these, in UTC, are the times of its rows.
	Oldest time.Time `json:"oldest"`
	Newest time.Time `json:"newest"`

	head string // hash of the last row
}

// Missing says, in words, that its rows cannot be read.
func (s Segment) Missing() string {
	return fmt.Sprintf("rows %d to %d are in a sealed segment that is not here: %s", s.First, s.Last, s.File)
}

// cover extends the times of a segment to those of r.
func (s *Segment) cover(r Row) {
	if s.Oldest.IsZero() || r.Time.Before(s.Oldest) {
		s.Oldest = r.Time
	}
	if s.Newest.IsZero() || r.Time.After(s.Newest) {
		s.Newest = r.Time
	}
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

// maxLine is the maximum size of a line, in bytes: more than a row of maxData with each byte escaped.
const maxLine = 8 << 20

func (l *Log) segmentDir() string { return l.path + "-segments" }

func (l *Log) segmentPath(first, last int64) string {
	return filepath.Join(l.segmentDir(), fmt.Sprintf("%020d-%020d.jsonl.gz", first, last))
}

// segments lists the sealed segments that reach row from, oldest first.
func (l *Log) segments(ctx context.Context, q querier, from int64) (list []Segment, err error) {
	var s Segment
	var oldest, newest int64
	var head, sum []byte
	for err := range each(ctx, q, []any{&s.First, &s.Last, &oldest, &newest, &head, &sum},
		"SELECT first, last, oldest, newest, hash, sha256 FROM segments WHERE last >= ? ORDER BY first", from) {
		if err != nil {
			return nil, err
		}
		s.Oldest, s.Newest = time.Unix(0, oldest).UTC(), time.Unix(0, newest).UTC()
		s.File, s.SHA256, s.head = l.segmentPath(s.First, s.Last), hex.EncodeToString(sum), hex.EncodeToString(head)
		_, err := os.Stat(s.File)
		s.Here = err == nil
		list = append(list, s)
	}
	return list, nil
}

// sealedUpTo returns the number of the last sealed row, or 0.
func sealedUpTo(ctx context.Context, q querier) (last int64, err error) {
	return one[int64](ctx, q, "SELECT coalesce(max(last), 0) FROM segments")
}

// The beginnings of lines.
var rowLine, receiptOfLine = []byte(`{"seq":`), []byte(`{"receipt_of":`)

// segmentReader reads the rows of a segment file.
type segmentReader struct {
	file         *bufio.Reader
	lines        *bufio.Reader // of what is compressed in it
	ahead        []byte        // the line after the last row
	row, receipt []byte        // the lines that next has returned
	end          endLine       // once next has returned io.EOF
}

var errSegment = errors.New("it is not a whole segment file")

func newSegmentReader(r io.Reader) (*segmentReader, error) {
	file := bufio.NewReader(r) // which gzip reads no further than it has to
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, ErrNoSegment
	}
	z.Multistream(false) // nothing is hidden behind the end
	s := &segmentReader{file: file, lines: bufio.NewReaderSize(z, 64<<10)}
	if err := s.advance(); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(s.ahead, rowLine) {
		return nil, ErrNoSegment
	}
	return s, nil
}

// next returns the line of a row and that of its receipt, nil if there is none, which are valid until the next call; and
// io.EOF after the last.
func (s *segmentReader) next() (row, receipt []byte, err error) {
	if !bytes.HasPrefix(s.ahead, rowLine) {
		return nil, nil, s.finish()
	}
	s.row, s.ahead = s.ahead, s.row
	if err := s.advance(); err != nil || !bytes.HasPrefix(s.ahead, receiptOfLine) {
		return s.row, nil, err
	}
	s.receipt, s.ahead = s.ahead, s.receipt
	return s.row, s.receipt, s.advance()
}

// parse reads lines as next returns them with f, which is exact or json.Unmarshal.
func parse(row, receipt []byte, f func([]byte, any) error) (r Row, envelope []byte, err error) {
	if err := f(row, &r); err != nil || receipt == nil {
		return r, nil, err
	}
	var line receiptLine
	if err = f(receipt, &line); err == nil && line.Seq != r.Seq {
		err = errSegment
	}
	return r, line.Envelope, err
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

// exact decodes a line that was written by encoding v, and refuses any other spelling: two readers must not be able to
// see different things in a line.
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

// edge returns the tree over the rows before the segment.
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

// contents are the rows of a segment file, of which only what is of a fixed size and sealings are kept, as the file may come
// from anybody; and what is wrong with the next.
type contents struct {
	rows  []Row
	times Segment // between which they were written
	end   endLine
	bad   *Bad
}

// readSegmentRows reads a segment file up to the first row that is not chained to the row before, or that has not the
// receipt whose hash the row says.
func readSegmentRows(f io.Reader) (c contents, err error) {
	s, err := newSegmentReader(f)
	if err != nil {
		return c, err
	}
	var in *chain
	for {
		line, receiptLine, err := s.next()
		if err == io.EOF && in != nil {
			c.end = s.end
			return c, nil
		}
		var r Row
		var receipt []byte
		if err == nil {
			r, receipt, err = parse(line, receiptLine, exact)
		}
		if err != nil || in == nil && !isHash(r.Prev) {
			return c, errSegment
		}
		if in == nil {
			in = &chain{next: r.Seq, head: r.Prev, prev: r.Prev}
		}
		if len(c.rows) == segmentRows {
			c.bad = &Bad{r.Seq, fmt.Sprintf("is one too many: no segment has more than %d rows", segmentRows)}
		} else if c.bad = in.add(r); c.bad == nil {
			c.bad = badReceipt(r, sha256.Sum256(receipt), len(receipt) > 0)
		}
		if c.bad != nil {
			return c, nil
		}
		c.times.cover(r)
		small := Row{Seq: r.Seq, Time: r.Time, Prev: r.Prev, Hash: r.Hash}
		if r.Kind == sealedKind && len(r.Data) <= maxSealing {
			small.Kind, small.Data = r.Kind, r.Data
		}
		c.rows = append(c.rows, small)
	}
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == hashSize && hex.EncodeToString(b) == s
}
