package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// chunkRows is the number of rows that a worker of Verify checks at once.
const chunkRows = 4096

// chunk is a stretch of the log that can be checked by itself, beside others.
type chunk struct {
	first, last int64
	from        int64    // the number from which on to read: below first where no row may be
	segment     *Segment // the file that holds the rows, or nil for the database
	done        chan struct{}

	// What was found.
	prev     []byte // what the first row follows
	hashes   [][hashSize]byte
	leaves   []tlog.Hash
	times    []time.Time
	points   []point
	sealings [][]byte // data of rows that say what was sealed
	broken   bool     // the chain is, or rows cannot be read: to be walked row by row
	bad      *Bad     // what else is wrong
	err      error
}

// point is a checkpoint to compare the tree with.
type point struct {
	checkpoint
	name string
}

// check is the body of a worker.
func (c *chunk) check(ctx context.Context, conn *sql.Conn, keys keyring) {
	defer close(c.done)
	var err error
	if c.segment != nil {
		err = c.readSegment()
	} else {
		err = c.readRows(ctx, conn)
	}
	if err == nil && !c.broken && c.bad == nil {
		err = c.readPoints(ctx, conn, keys)
	}
	switch {
	case unreadable(err):
		c.broken = true
	case err != nil:
		c.err = err
	}
}

// receiptOf is the hash that a row says its receipt has.
type receiptOf struct {
	seq  int64
	hash []byte
}

func (c *chunk) readRows(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT seq, time, kind, run, namespace, data, prev, hash FROM audit WHERE seq BETWEEN ? AND ? ORDER BY seq", c.from, c.last)
	if err != nil {
		return err
	}
	defer rows.Close()
	var refs []receiptOf
	var seq, nanos int64
	var kind, run, namespace, data, prev, hash sql.RawBytes
	var buf []byte
	for rows.Next() {
		if err := rows.Scan(&seq, &nanos, &kind, &run, &namespace, &data, &prev, &hash); err != nil {
			if rows.Err() == nil {
				err = fmt.Errorf("%w: %v", errType, err)
			}
			return err
		}
		buf = appendRow(buf[:0], prev, seq, nanos, kind, run, namespace, data)
		if !c.add(seq, prev, hash, sha256.Sum256(buf)) {
			c.broken = true
			return nil
		}
		c.times = append(c.times, time.Unix(0, nanos))
		if want := receiptHash(data); want != nil {
			refs = append(refs, receiptOf{seq, want})
		}
		if string(kind) == sealedKind {
			c.sealings = append(c.sealings, bytes.Clone(data))
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	c.broken = int64(len(c.hashes)) != c.last-c.first+1
	if c.broken {
		return nil
	}
	return c.readReceipts(ctx, conn, refs)
}

// add reports whether a row with that hash may follow.
func (c *chunk) add(seq int64, prev, hash []byte, sum [hashSize]byte) bool {
	n := len(c.hashes)
	if seq != c.first+int64(n) || !bytes.Equal(hash, sum[:]) {
		return false
	}
	if n == 0 {
		c.prev = bytes.Clone(prev)
	} else if !bytes.Equal(prev, c.hashes[n-1][:]) {
		return false
	}
	c.hashes, c.leaves = append(c.hashes, sum), append(c.leaves, leaf(sum[:]))
	return true
}

// readReceipts finds the receipts that rows speak of, and no others.
func (c *chunk) readReceipts(ctx context.Context, conn *sql.Conn, refs []receiptOf) error {
	var seq int64
	var envelope sql.RawBytes
	for err := range each(ctx, conn, []any{&seq, &envelope}, "SELECT seq, envelope FROM receipts WHERE seq BETWEEN ? AND ? ORDER BY seq", c.from, c.last) {
		if err != nil {
			return err
		}
		switch sum := sha256.Sum256(envelope); {
		case len(refs) == 0 || seq < refs[0].seq:
			c.bad = &Bad{seq, "has a receipt of which it says nothing"}
			return nil
		case seq > refs[0].seq:
			c.bad = &Bad{refs[0].seq, "has lost its receipt"}
			return nil
		case !bytes.Equal(sum[:], refs[0].hash):
			c.bad = &Bad{seq, "has another receipt than the one it came with"}
			return nil
		}
		refs = refs[1:]
	}
	if len(refs) > 0 {
		c.bad = &Bad{refs[0].seq, "has lost its receipt"}
	}
	return nil
}

// readPoints reads the checkpoints at rows of the chunk.
func (c *chunk) readPoints(ctx context.Context, conn *sql.Conn, keys keyring) error {
	var size int64
	var note []byte
	for err := range each(ctx, conn, []any{&size, &note}, "SELECT size, note FROM checkpoints WHERE size BETWEEN ? AND ? ORDER BY size", c.first, c.last) {
		if err != nil {
			return err
		}
		p, err := keys.open(note)
		if err == nil && p.size != size {
			err = errors.New("it is for another row")
		}
		if err != nil {
			c.bad = &Bad{size, "the checkpoint there was changed: " + err.Error()}
			return nil
		}
		c.points = append(c.points, point{p, "the checkpoint there"})
	}
	return nil
}

// readSegment reads a segment file, and describes its faults.
func (c *chunk) readSegment() error {
	f, sum, err := openHashed(c.segment.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if sum != c.segment.SHA256 {
		c.bad = &Bad{c.first, fmt.Sprintf("is in a segment file that was changed, with all up to row %d: %s", c.last, c.segment.File)}
	}
	found, err := c.readFile(f)
	if err == nil && found == nil {
		return nil
	}
	if found == nil {
		found = &Bad{c.first + int64(len(c.hashes)), fmt.Sprintf("cannot be read from %s: %v", c.segment.File, err)}
	}
	c.bad = found
	return nil
}

// readFile reads the rows of a segment file up to the first that is bad.
func (c *chunk) readFile(f io.Reader) (*Bad, error) {
	var times Segment
	_, bad, err := readSegmentRows(f, func(r Row, _ []byte) bool {
		times.cover(r)
		hash, _ := hex.DecodeString(r.Hash)
		if c.prev == nil {
			c.prev, _ = hex.DecodeString(r.Prev)
		}
		c.hashes, c.leaves, c.times = append(c.hashes, [hashSize]byte(hash)), append(c.leaves, leaf(hash)), append(c.times, r.Time)
		if r.Kind == sealedKind {
			c.sealings = append(c.sealings, r.Data)
		}
		return int64(len(c.hashes)) <= c.last-c.first
	})
	if n := int64(len(c.hashes)); bad == nil && err == nil && n != c.last-c.first+1 {
		bad = &Bad{c.first + n, "is missing in " + c.segment.File}
	}
	if bad == nil && err == nil && (times.Oldest != c.segment.Oldest || times.Newest != c.segment.Newest) {
		bad = &Bad{c.first, "was hidden, with all up to row " + strconv.FormatInt(c.last, 10) + ": its segment is listed with other times than its rows have"}
	}
	return bad, err
}
