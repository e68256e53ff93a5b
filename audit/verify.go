package audit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// VerifyOptions are the external references of a verification.
type VerifyOptions struct {
	Keys        []checkpoint.Key // one of them must have signed each checkpoint; with none, signatures are not checked
	Checkpoints [][]byte         // notes that somebody has kept elsewhere
	Names       []string         // what they are called in reports, one each; none is by number
}

// Report is the result of [Log.Verify].
type Report struct {
	Rows int64  `json:"rows"` // how many rows were checked and are good, from the first on
	Head string `json:"head"` // hash of the last good row: who keeps it can tell later that nothing before was rewritten or cut off
	Bad  *Bad   `json:"bad,omitempty"`

	// Absent is how many more are in files that are not here: a checkpoint vouches for them, and nobody has read them.
	Absent int64 `json:"absent"`

	Origin     string        `json:"origin,omitempty"`     // the log's name in its checkpoints
	Root       string        `json:"root,omitempty"`       // base64 root of the Merkle tree over the good rows
	Checkpoint *CheckedPoint `json:"checkpoint,omitempty"` // the newest
	Unsigned   int64         `json:"unsigned"`             // rows after the newest checkpoint: nothing shows if these are cut off
	// UnsignedSince is the time of the first of these rows; zero where there is none.
	UnsignedSince time.Time `json:"unsigned_since,omitzero"`
	Files         []File    `json:"files"`             // that were checked, the oldest first
	Remarks       []string  `json:"remarks,omitempty"` // what is not wrong by itself, but limits what was proven
}

// CheckedPoint is a checkpoint in a report.
type CheckedPoint struct {
	Size   int64     `json:"size"`   // how many rows it covers, from the first on
	Root   string    `json:"root"`   // base64 root of the Merkle tree over them
	Time   time.Time `json:"time"`   // when the last of these rows was written; zero where that row is not here
	Signed bool      `json:"signed"` // a key of VerifyOptions has signed it
}

// Bad is the first fault of a log.
type Bad struct {
	Seq int64  `json:"seq"` // the row, or 0 where it is the table or a file
	Why string `json:"why"`
}

// String says what is wrong.
func (b Bad) String() string {
	if b.Seq == 0 {
		return b.Why
	}
	return fmt.Sprintf("row %d %s", b.Seq, b.Why)
}

// Verify recomputes the hashes of all rows, and with them the
// chain, the Merkle tree and the receipts. It compares the tree with each checkpoint: in the log, in the file beside
// it, and in o. Then it compares tables and triggers with what they were made as, and lets SQLite check the file.
//
// What is wrong with the log is in the report; an error means that it could not be read, or is a *NoteError
// about one of o.Checkpoints. Rows may be appended meanwhile.
func (l *Log) Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	v := verification{log: l, keys: o.Keys}
	r, err := v.verifyAll(ctx, o)
	if note, ok := errors.AsType[*NoteError](err); ok {
		return Report{}, note
	}
	if err != nil {
		return Report{}, l.readError(err)
	}
	return r, nil
}

// verification verifies a whole log.
type verification struct {
	log  *Log
	l    *logFile // that is verified now
	keys []checkpoint.Key
	ring checkpoint.Keyring

	last         bool              // l is the last file
	files        []File            // that were verified
	head         int64             // last row of the file when it began
	newest       int64             // newest stored checkpoint then
	acknowledged rowPosition       // the last row that was acknowledged, as the file beside the log says
	external     []namedCheckpoint // from outside the database, by size
	otherLog     *NoteError        // an external one that is of another log
	altered      bool              // tables or triggers are not as they were made

	chain         chain
	tree          merkle.Tree
	proven        verifiedPoint // as far as a checkpoint vouches
	absent        int64         // rows that a checkpoint vouches for, in files that are not here
	doubtful      *Bad          // the last checkpoint that does not count, as its key was replaced or revoked
	doubts        int           // how many do not
	lastTime      time.Time     // of the last row
	firstBackward string        // where time goes back first
	backwardRows  int           // how often it does
	remarks       []string
}

// verifiedPoint is a place in the log up to which all is good.
type verifiedPoint struct {
	size int64
	head string
	root tlog.Hash
}

func (v *verification) verifyAll(ctx context.Context, o VerifyOptions) (Report, error) {
	zero := hex.EncodeToString(make([]byte, hashSize))
	v.chain, v.proven = chain{next: 1, head: zero}, verifiedPoint{head: zero}
	latest, err := v.readLatest() // before the rows that it covers
	if err == nil && v.log.named == nil {
		v.acknowledged, err = lastAcknowledged(v.log.acknowledgedPath())
	}
	if err != nil {
		return Report{}, err
	}
	files, err := v.log.filesFrom(ctx, 1)
	if err != nil {
		return Report{}, err
	}
	for i, f := range files {
		v.l, v.last = f, i == len(files)-1
		if bad, err := v.verifyLogFile(ctx, i == 0, latest, o); bad != nil || err != nil {
			return v.report(ctx, bad), err
		}
		v.files = append(v.files, File{f.path, f.first, v.head})
	}
	if v.otherLog != nil {
		return v.report(ctx, nil), v.otherLog
	}
	return v.report(ctx, nil), nil
}

// verifyLogFile verifies a file.
func (v *verification) verifyLogFile(ctx context.Context, first bool, latest []byte, o VerifyOptions) (*Bad, error) {
	bad, err := v.readReferences(ctx)
	if err == nil && bad == nil && first {
		bad, err = v.parseExternal(latest, o)
	}
	if v.altered || isContentError(err) {
		if row, walkErr := v.verifyOneByOne(ctx); row != nil || walkErr != nil { // names a row, where one is bad
			return row, walkErr
		}
	}
	if err == nil && bad == nil && v.l.first > 1 {
		bad, err = v.continueFile(ctx)
	}
	if err == nil && bad == nil {
		bad, err = v.verifyEverything(ctx)
	}
	return bad, err
}

// verifyOneByOne walks all rows that are in the database.
func (v *verification) verifyOneByOne(ctx context.Context) (*Bad, error) {
	return v.verifyStoredRows(ctx, math.MaxInt64-1, false)
}

// verifyEverything checks everything, and the file itself beside the rows.
func (v *verification) verifyEverything(ctx context.Context) (*Bad, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		damage string
		err    error
	}
	file := make(chan answer, 1)
	go func() {
		damage, err := schema.CheckIntegrity(ctx, v.l.db)
		file <- answer{damage, err}
	}()
	bad, err := v.verifyRows(ctx)
	if bad == nil && err == nil {
		bad, err = v.verifyTables(ctx)
	}
	if bad != nil || err != nil {
		cancel()
	}
	if a := <-file; bad == nil && err == nil && a.damage != "" {
		return &Bad{0, a.damage}, nil
	} else if bad == nil && err == nil {
		return nil, a.err
	}
	return bad, err
}

// report returns the Report, after bad was found.
func (v *verification) report(ctx context.Context, bad *Bad) Report {
	r := Report{
		Rows: v.chain.next - 1 - v.absent, Absent: v.absent, Head: v.chain.head, Bad: bad,
		Origin: v.ring.Origin, Files: v.files, Remarks: v.remarks,
	}
	if bad != nil {
		return r
	}
	if v.tree.Size > 0 {
		r.Root = v.tree.Root().String()
	}
	if v.proven.size > 0 {
		r.Checkpoint = &CheckedPoint{Size: v.proven.size, Root: v.proven.root.String(), Signed: len(v.keys) > 0}
		if nanos, err := statefile.One[int64](ctx, v.l.db, "SELECT time FROM audit WHERE seq = ?", v.proven.size); err == nil {
			r.Checkpoint.Time = time.Unix(0, nanos).UTC()
		}
	}
	r.Remarks = append(r.Remarks, v.remarksOfRows(ctx)...)
	if v.backwardRows > 0 {
		r.Remarks = append(r.Remarks, fmt.Sprintf("rows go back in time, %d times: %s: the clock was set back, or somebody dated rows", v.backwardRows, v.firstBackward))
	}
	if r.Checkpoint == nil && v.chain.next > 1 {
		r.Remarks = append(r.Remarks, "no row is signed: whoever can write the file could have written all of it anew")
	}
	if r.Unsigned = v.chain.next - 1 - v.proven.size; r.Unsigned > 0 {
		if nanos, err := statefile.One[int64](ctx, v.l.db, "SELECT time FROM audit WHERE seq = ?", v.proven.size+1); err == nil {
			r.UnsignedSince = time.Unix(0, nanos).UTC()
		}
	}
	return r
}
