package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// each calls do for the rows of a segment that f chooses, and says whether there may be more. A file that
// is not there is an error, unless f.Missing takes it.
//
// The file's hash, which the log has, vouches for its lines: they are not checked one by one, and those
// that f cannot choose are not even decoded.
func (s Segment) each(ctx context.Context, f Filter, do func(r Row, receipt []byte) bool) (more bool, err error) {
	if !f.mayHave(s) {
		return true, nil
	}
	file, err := s.open()
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && f.Missing != nil:
		f.Missing(s)
		return true, nil
	case missing:
		return false, errors.New(s.Missing())
	case err != nil:
		return false, err
	}
	defer file.Close()
	more, err = f.read(ctx, file, do)
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.File, err)
	}
	return more, nil
}

// open opens the file, if it is the one that was sealed.
func (s Segment) open() (*os.File, error) {
	file, sum, err := openHashed(s.File)
	if err == nil && sum != s.SHA256 {
		err = errors.Join(fmt.Errorf("%s was changed: see sandboxmcp audit verify", s.File), file.Close())
	}
	return file, err
}

// read calls do for the rows that f chooses.
func (f Filter) read(ctx context.Context, file io.Reader, do func(r Row, receipt []byte) bool) (more bool, err error) {
	s, err := newSegmentReader(file)
	if err != nil {
		return false, err
	}
	texts := f.texts()
	for {
		line, receiptLine, err := s.next()
		if err == io.EOF {
			return true, nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return false, err
		}
		if !texts.in(line) {
			continue
		}
		r, receipt, err := parse(line, receiptLine, json.Unmarshal)
		if err != nil {
			return false, errSegment
		}
		if f.chooses(r) && !do(r, receipt) {
			return false, nil
		}
	}
}

// texts are lists of texts: the line of a row that the filter chooses contains a text of each list.
type texts [][][]byte

func (f Filter) texts() (all texts) {
	add := func(key string, values ...string) {
		var any [][]byte
		for _, v := range values {
			if b, err := json.Marshal(v); err == nil && v != "" {
				any = append(any, append([]byte(key), b...))
			}
		}
		if len(any) > 0 && len(any) == len(values) {
			all = append(all, any)
		}
	}
	add(`"run":`, f.Run)
	add(`"namespace":`, f.Namespace)
	add(`"namespace":`, f.Namespaces...)
	add(`"kind":`, f.Kinds...)
	return all
}

func (t texts) in(line []byte) bool {
	for _, list := range t {
		found := false
		for _, text := range list {
			found = found || bytes.Contains(line, text)
		}
		if !found {
			return false
		}
	}
	return true
}

// mayHave reports whether rows that f chooses can be in a segment, as far as that is known without its file.
func (f Filter) mayHave(s Segment) bool {
	return s.Last > f.After && (f.Before <= 0 || s.First < f.Before) &&
		(f.Since.IsZero() || !s.Newest.Before(f.Since)) &&
		(f.Until.IsZero() || s.Oldest.Before(f.Until)) &&
		!s.Newest.Before(began(f.Run).Add(-clockSlack))
}

// clockSlack is how far a clock may have been set back while a run was going on.
const clockSlack = 24 * time.Hour

// began returns the time at which a run began, by its name, a ULID: the first ten characters are milliseconds in
// Crockford's base 32 (https://github.com/ulid/spec). For any other name it is the zero time.
func began(run string) time.Time {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	if len(run) != 26 || run[0] > '7' {
		return time.Time{}
	}
	var ms int64
	for i := range run {
		n := strings.IndexByte(digits, run[i])
		if n < 0 {
			return time.Time{}
		}
		if i < 10 {
			ms = ms<<5 | int64(n)
		}
	}
	return time.UnixMilli(ms)
}

// chooses reports whether f chooses r, as the SQL of where does.
func (f Filter) chooses(r Row) bool {
	at := r.Time.UnixNano()
	lacks := func(text string) bool { return !strings.Contains(string(r.Data), text) }
	return r.Seq > f.After && (f.Before <= 0 || r.Seq < f.Before) && !slices.ContainsFunc(f.Contains, lacks) &&
		(f.Namespace == "" || r.Namespace == f.Namespace) &&
		(f.Namespaces == nil || slices.Contains(f.Namespaces, r.Namespace)) &&
		(f.Run == "" || r.Run == f.Run) &&
		(f.Since.IsZero() || at >= nanos(f.Since)) &&
		(f.Until.IsZero() || at < nanos(f.Until)) &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, r.Kind))
}
