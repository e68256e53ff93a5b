package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Rows after the newest checkpoint are only in the -wal file. SQLite reads a cut or damaged -wal file up to the fault,
// which the chain does not show. So a file beside the log has the last row that was acknowledged as durable.
//
// A row has a slot by its number, so that of several processes none replaces the newest row by an older one. The file
// is not synced: after a power failure it has an older row or none, which claims less.
const (
	slots    = 64
	slotSize = 64
)

func (l *Log) acknowledgedPath() string { return acknowledgedPath(l.path) }

func acknowledgedPath(base string) string { return base + "-acknowledged" }

// slot is the file's record of a row, with a checksum that reveals a partial write.
func (p rowPosition) slot() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, slotSize+sha256.Size), uint64(p.seq))
	b = append(binary.BigEndian.AppendUint64(b, uint64(p.time.UnixNano())), p.hash[:]...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)[:slotSize]
}

// writeAcknowledged records that a row is on the disk. If that fails, the file keeps an older row.
func (d *disk) writeAcknowledged(path string, last *rowPosition) {
	if last == nil {
		return
	}
	if d.acknowledged == nil {
		d.acknowledged, _ = os.OpenFile(path, os.O_RDWR|os.O_CREATE|statefile.NoWait|statefile.NoLink, 0o600)
	}
	_, _ = d.acknowledged.WriteAt(last.slot(), last.seq%slots*slotSize) // also of nil
}

// lastAcknowledged returns the newest row of the file at path, or zero if there is none.
func lastAcknowledged(path string) (last rowPosition, err error) {
	content, err := statefile.ReadSmall(path, slots*slotSize)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	for ; len(content) >= slotSize; content = content[slotSize:] {
		p := rowPosition{seq: int64(binary.BigEndian.Uint64(content)), time: time.Unix(0, int64(binary.BigEndian.Uint64(content[8:]))).UTC()}
		copy(p.hash[:], content[16:])
		if p.seq > last.seq && bytes.Equal(p.slot(), content[:slotSize]) {
			last = p
		}
	}
	return last, err
}

// lostKind is the kind of a row about acknowledged rows that the log had lost when it was opened.
const lostKind = "audit.lost"

// loss is the data of such a row.
type loss struct {
	First int64     `json:"first"`
	Last  int64     `json:"last"`
	Since time.Time `json:"since,omitzero"` // when the row before them was written; zero if there is none, or if other rows took their numbers
	Until time.Time `json:"until"`          // when the last of them was written
}

// findLoss returns which acknowledged rows are not in the log, or nil. If other rows took their numbers, only the last
// one is known.
func (l *Log) findLoss(ctx context.Context) (*loss, error) {
	acked, err := lastAcknowledged(l.acknowledgedPath())
	if err != nil || acked.seq == 0 {
		return nil, err
	}
	f, err := l.currentFile(ctx) // read after the row that it is compared with
	if err != nil || acked.seq < f.first {
		return nil, err
	}
	var head, nanos int64
	var hash []byte
	err = f.db.QueryRowContext(ctx, "SELECT seq, time, hash FROM audit WHERE seq <= ? ORDER BY seq DESC LIMIT 1", acked.seq).Scan(&head,
		&nanos, &hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &loss{First: f.first, Last: acked.seq, Until: acked.time}, nil
	case err != nil:
		return nil, err
	case head < acked.seq:
		return &loss{head + 1, acked.seq, time.Unix(0, nanos).UTC(), acked.time}, nil
	case !bytes.Equal(hash, acked.hash[:]):
		return &loss{First: acked.seq, Last: acked.seq, Until: acked.time}, nil
	}
	return nil, nil
}

// recordLoss appends a row about acknowledged rows that are missing, and continues without them. After a failure, the
// next Open tries again.
func (l *Log) recordLoss(ctx context.Context) error {
	if lost, err := l.findLoss(ctx); lost == nil {
		return err
	}
	// otherwise two processes that open the log would both write the row
	f, err := statefile.LockFile(ctx, l.acknowledgedPath(), false, owedWait)
	if err != nil {
		return err
	}
	defer f.Close()
	lost, err := l.findLoss(ctx)
	if lost == nil {
		return err
	}
	rows, err := l.Append(ctx, Entry{Kind: lostKind, Data: lost})
	if err == nil {
		err = errors.Join(f.Truncate(0), f.Sync())
	}
	if l.signing.Log != nil && rows != nil {
		l.signing.Log.Error("the audit log has lost rows that were acknowledged: its -wal file was cut, damaged or deleted, or an older copy "+
			"was put in its place",
			"log", l.path, "first", lost.First, "last", lost.Last, "since", lost.Since, "recorded in row", rows[0].Seq)
	}
	return err
}

// compareAcknowledged returns the fault of a row that differs from the acknowledged one.
func (v *verification) compareAcknowledged(r rowPosition) *Bad {
	if r.seq != v.acknowledged.seq || r.hash == v.acknowledged.hash {
		return nil
	}
	first := v.proven.size + 1
	v.chain.next, v.chain.head = first, v.proven.head
	return &Bad{first, fmt.Sprintf("was rewritten, or one of those after it up to row %d, which is not the one that was acknowledged at "+
		"%s, or that was lost before others "+
		"took its place", r.seq, v.acknowledged.time.Format(time.RFC3339))}
}

// findCut returns the fault of a log that ends before an acknowledged row.
func (v *verification) findCut() *Bad {
	if !v.last || v.acknowledged.seq <= v.head {
		return nil
	}
	since := ""
	if !v.lastTime.IsZero() {
		since = "after " + v.lastTime.Format(time.RFC3339) + ", "
	}
	return &Bad{v.chain.next, fmt.Sprintf("is missing, with all after it up to row %d, %d in all, which were acknowledged %sthe last at %s: "+
		"the -wal file was cut, damaged or deleted, or an older copy of the log was put in its place",
		v.acknowledged.seq, v.acknowledged.seq-v.head, since, v.acknowledged.time.Format(time.RFC3339))}
}

// positionOf returns the position of a row.
func positionOf(r Row) (p rowPosition) {
	hash, _ := hex.DecodeString(r.Hash)
	copy(p.hash[:], hash)
	p.seq, p.time = r.Seq, r.Time
	return p
}
