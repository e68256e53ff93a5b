package audit

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Exported is the export of one log as JSON lines, the oldest row first.
type Exported struct {
	Name string // for people
	From io.Reader
	// Some says that it has not all rows of its log, by a filter: what is missing can't be told from what was removed.
	Some bool
}

// Merged is a row, and the export that it is from.
type Merged struct {
	Row
	From string
}

// BadExport reports a row of an export that is not as its log had it. No row from there on was merged.
type BadExport struct {
	Name string
	Bad
}

func (e *BadExport) Error() string { return fmt.Sprintf("%s: %v", e.Name, e.Bad) }

// maxExportedRow is the longest line, in bytes: data of 1 MiB, and what is around it.
const maxExportedRow = 4 << 20

// Merge yields the rows of several logs, by time, and each row once however many exports have it. The rows of one log stay
// in its order. Each export's chain is verified by itself: an error is a *BadExport, or that of reading, and the rows of the others
// follow.
func Merge(all []Exported) iter.Seq2[Merged, error] {
	return func(yield func(Merged, error) bool) {
		var open []*mergeSource
		for _, e := range all {
			s := &mergeSource{Exported: e, lines: bufio.NewScanner(e.From)}
			s.lines.Buffer(make([]byte, 0, 64<<10), maxExportedRow)
			open = append(open, s)
			if !s.advance(yield) {
				return
			}
		}
		seen := map[[hashSize]byte]bool{}
		for {
			var first *mergeSource
			for _, s := range open {
				if !s.done && (first == nil || s.row.Time.Before(first.row.Time)) {
					first = s
				}
			}
			if first == nil {
				return
			}
			if hash := sum(first.row); !seen[hash] {
				seen[hash] = true
				if !yield(Merged{first.row, first.Name}, nil) {
					return
				}
			}
			if !first.advance(yield) {
				return
			}
		}
	}
}

// mergeSource reads one export.
type mergeSource struct {
	Exported
	lines *bufio.Scanner
	chain chain
	row   Row // the next
	done  bool
}

// advance reads the next row. What is wrong is yielded, and ends the source; it returns false if yield did.
func (s *mergeSource) advance(yield func(Merged, error) bool) bool {
	err := s.next()
	if err == nil {
		return true
	}
	s.done = true
	return err == io.EOF || yield(Merged{From: s.Name}, err)
}

// next reads and verifies the next row.
func (s *mergeSource) next() error {
	if !s.lines.Scan() {
		if err := s.lines.Err(); err != nil {
			return fmt.Errorf("read %s: %w", s.Name, err)
		}
		return io.EOF
	}
	line := bytes.TrimSpace(s.lines.Bytes())
	if len(line) == 0 {
		return s.next()
	}
	r, err := decodeRow(line)
	if err != nil {
		return fmt.Errorf("%s: after row %d comes a line that is no row: %w", s.Name, s.chain.next-1, err)
	}
	if s.chain.next == 0 || s.Some && r.Seq > s.chain.next { // it begins here, or a filter has left some out
		s.chain = chain{next: r.Seq, head: r.Prev}
		if r.Seq == 1 {
			s.chain.head = strings.Repeat("0", 2*hashSize)
		}
	}
	if bad := s.chain.add(r); bad != nil {
		return &BadExport{s.Name, *bad}
	}
	s.row = r
	return nil
}

// decodeRow reads a row as exports write it.
func decodeRow(line []byte) (r Row, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if prev, err := hex.DecodeString(r.Prev); err != nil || len(prev) != hashSize || r.Seq < 1 {
		return r, errors.New("it has no hash of the row before, or no number")
	}
	return r, nil
}
