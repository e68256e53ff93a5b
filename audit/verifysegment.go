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
func VerifySegment(path string, keys []Key) (Report, error) {
	r, err := verifySegment(path, keys)
	if err != nil {
		return Report{}, fmt.Errorf("read audit segment %q: %w", path, err)
	}
	return r, nil
}

func verifySegment(path string, keys []Key) (r Report, err error) {
	f, sum, err := openHashed(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	r, err = readSegmentReport(f, keys)
	for i := range r.Segments {
		r.Segments[i].File, r.Segments[i].SHA256 = path, sum
	}
	return r, err
}

func readSegmentReport(f io.Reader, keys []Key) (r Report, err error) {
	var hashes [][]byte
	var first, last Row
	var s Segment
	end, bad, err := readSegmentRows(f, func(row Row, _ []byte) bool {
		hash, _ := hex.DecodeString(row.Hash)
		if hashes = append(hashes, hash); len(hashes) == 1 {
			first = row
		}
		last = row
		s.cover(row)
		return true
	})
	r.Rows, r.Head, r.Bad = int64(len(hashes)), last.Hash, bad
	if errors.Is(err, errSegment) {
		r.Bad = &Bad{0, err.Error()}
		return r, nil
	}
	if err != nil || bad != nil {
		return r, err
	}
	s.First, s.Last, s.Here, s.head = first.Seq, last.Seq, true, last.Hash
	r.Segments = []Segment{s}
	r.Bad, err = r.prove(end, first, last, hashes, keys)
	return r, err
}

// prove verifies that the checkpoint at the end of a segment covers its rows.
func (r *Report) prove(end endLine, first, last Row, hashes [][]byte, keys []Key) (*Bad, error) {
	c, err := openNote([]byte(end.Checkpoint), keys)
	if errors.Is(err, errNoKey) {
		return nil, fmt.Errorf("the checkpoint at its end: %w", err)
	}
	if err != nil {
		return &Bad{0, "the checkpoint at its end: " + err.Error()}, nil
	}
	t, err := end.edge(first.Seq - 1)
	if err != nil {
		return &Bad{0, err.Error()}, nil
	}
	for _, h := range hashes {
		t.add(leaf(h), nil)
	}
	if c.size != last.Seq || c.root != t.root() || first.Seq == 1 && c.origin != originOf(hashes[0]) {
		return &Bad{first.Seq, fmt.Sprintf("was rewritten, or one of those after it up to row %d: the checkpoint was made over other rows", last.Seq)}, nil
	}
	if err := c.covers(last.Time); err != nil {
		return &Bad{0, "the checkpoint at its end: " + err.Error()}, nil
	}
	r.Origin, r.Root = c.origin, c.root.String()
	r.Checkpoint = &CheckedPoint{Size: c.size, Root: r.Root, Time: last.Time, Signed: len(keys) > 0}
	return nil, nil
}
