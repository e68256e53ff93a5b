package audit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// ErrNoSegment is the error for a file that is no sealed segment, not even a damaged one.
var ErrNoSegment = errors.New("it is not a sealed segment of an audit log")

// VerifySegment checks a segment file alone, offline: the chain of its rows, their receipts, and that the checkpoint at
// its end was made over them. With no keys, signatures are not checked. What is wrong with the file is in the report,
// whose Rows are those of the file; an error means that it could not be read, is something else (ErrNoSegment), or is
// signed by none of the keys. The file may come from anybody: it costs the memory of the hashes of 20,000 rows.
func VerifySegment(path string, keys []Key) (r Report, err error) {
	f, sum, err := openHashed(path)
	if err == nil {
		defer f.Close()
		r, err = readSegmentReport(f, keys)
	}
	if err != nil {
		return Report{}, fmt.Errorf("read audit segment %q: %w", path, err)
	}
	for i := range r.Segments {
		r.Segments[i].File, r.Segments[i].SHA256 = path, sum
	}
	return r, nil
}

func readSegmentReport(f io.Reader, keys []Key) (r Report, err error) {
	c, err := readSegmentRows(f)
	if r.Rows, r.Bad = int64(len(c.rows)), c.bad; r.Rows > 0 {
		r.Head = c.rows[r.Rows-1].Hash
	}
	if errors.Is(err, errSegment) {
		r.Bad = &Bad{0, err.Error()}
		return r, nil
	}
	if err != nil || r.Bad != nil {
		return r, err
	}
	s := c.times
	s.First, s.Last, s.Here, s.head = c.rows[0].Seq, c.rows[r.Rows-1].Seq, true, r.Head
	r.Segments = []Segment{s}
	r.Bad, err = r.prove(c, keys)
	return r, err
}

// prove verifies that the checkpoint at the end of a segment covers its rows.
func (r *Report) prove(in contents, keys []Key) (*Bad, error) {
	first, last := in.rows[0], in.rows[len(in.rows)-1]
	c, err := openNote([]byte(in.end.Checkpoint), keys)
	if errors.Is(err, errNoKey) {
		return nil, fmt.Errorf("the checkpoint at its end: %w", err)
	}
	if err != nil {
		return &Bad{0, "the checkpoint at its end: " + err.Error()}, nil
	}
	t, err := in.end.edge(first.Seq - 1)
	if err != nil {
		return &Bad{0, err.Error()}, nil
	}
	origin := c.origin
	for _, row := range in.rows {
		hash, _ := hex.DecodeString(row.Hash)
		if row.Seq == 1 {
			origin = originOf(hash)
		}
		t.add(leaf(hash), nil)
	}
	if c.size != last.Seq || c.root != t.root() || c.origin != origin {
		return &Bad{first.Seq, fmt.Sprintf("was rewritten, or one of those after it up to row %d: the checkpoint was made over other rows", last.Seq)}, nil
	}
	if err := c.covers(last.Time); err != nil {
		return &Bad{0, "the checkpoint at its end: " + err.Error()}, nil
	}
	r.Origin, r.Root = c.origin, c.root.String()
	r.Checkpoint = &CheckedPoint{Size: c.size, Root: r.Root, Time: last.Time, Signed: len(keys) > 0}
	return nil, nil
}
