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
	Checkpoints [][]byte         // copies from elsewhere
	Names       []string         // their names in reports; by default they have numbers
}

// Report is the result of [Log.Verify].
type Report struct {
	Rows int64  `json:"rows"` // number of good rows, from the first on
	Head string `json:"head"` // hash of the last good row, which reveals later changes before it
	Bad  *Bad   `json:"bad,omitempty"`

	// Absent is the number of rows in missing files, which a checkpoint covers but which were not read.
	Absent int64 `json:"absent"`

	Origin     string        `json:"origin,omitempty"`     // the log's name in its checkpoints
	Root       string        `json:"root,omitempty"`       // base64 root of the Merkle tree over the good rows
	Checkpoint *CheckedPoint `json:"checkpoint,omitempty"` // the newest
	Unsigned   int64         `json:"unsigned"`             // rows after the newest checkpoint: cutting them off is not detected
	// UnsignedSince is the time of the first of these rows; or zero if there is none.
	UnsignedSince time.Time `json:"unsigned_since,omitzero"`
	Files         []File    `json:"files"`             // that were checked, the oldest first
	Remarks       []string  `json:"remarks,omitempty"` // limitations of the result that are not faults
}

// CheckedPoint is a checkpoint in a report.
type CheckedPoint struct {
	Size   int64     `json:"size"`   // number of covered rows, from the first on
	Root   string    `json:"root"`   // base64 root of the Merkle tree over them
	Time   time.Time `json:"time"`   // when the last covered row was written; zero if that row is missing
	Signed bool      `json:"signed"` // a key of VerifyOptions has signed it
}

// Bad is the first fault of a log.
type Bad struct {
	Seq int64  `json:"seq"` // the row; 0 for a table or a file
	Why string `json:"why"`
}

// String describes the fault.
func (b Bad) String() string {
	if b.Seq == 0 {
		return b.Why
	}
	return fmt.Sprintf("row %d %s", b.Seq, b.Why)
}

// Verify recomputes the hashes of all rows, and with them the
// chain, the Merkle tree and the receipts. It compares the tree with each checkpoint: in the log, in the file beside
// it, and in o. Then it compares tables and triggers with the schema, and runs SQLite's integrity check.
//
// Faults of the log are in the report; an error means that it could not be read, or is a *NoteError about one of
// o.Checkpoints. Rows may be appended meanwhile.
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
	l    *logFile // being verified
	keys []checkpoint.Key
	ring checkpoint.Keyring

	last         bool              // l is the last file
	files        []File            // verified files
	head         int64             // last row of the file at the start
	newest       int64             // newest stored checkpoint at the start
	acknowledged rowPosition       // last acknowledged row, from the file beside the log
	external     []namedCheckpoint // from outside the database, by size
	otherLog     *NoteError        // about an external checkpoint of another log
	altered      bool              // tables or triggers differ from the schema

	chain         chain
	tree          merkle.Tree
	proven        verifiedPoint // last row that a checkpoint covers
	absent        int64         // covered rows in missing files
	doubtful      *Bad          // the last checkpoint whose key was not valid
	doubts        int           // number of such checkpoints
	lastTime      time.Time     // of the last row
	firstBackward string        // first row that goes back in time
	backwardRows  int           // number of such rows
	remarks       []string
}

// verifiedPoint is a row up to which the log is good.
type verifiedPoint struct {
	size int64
	head string
	root tlog.Hash
}

func (v *verification) verifyAll(ctx context.Context, o VerifyOptions) (Report, error) {
	zero := hex.EncodeToString(make([]byte, hashSize))
	v.chain, v.proven = chain{next: 1, head: zero}, verifiedPoint{head: zero}
	latest, err := v.readLatest() // read before the rows that it covers
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
		if row, walkErr := v.verifyOneByOne(ctx); row != nil || walkErr != nil { // finds the bad row, if any
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

// verifyOneByOne verifies all rows of the database one by one.
func (v *verification) verifyOneByOne(ctx context.Context) (*Bad, error) {
	return v.verifyStoredRows(ctx, math.MaxInt64-1, false)
}

// verifyEverything checks the rows, the tables and the file.
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
		r.Remarks = append(r.Remarks, fmt.Sprintf("rows go back in time, %d times: %s: the clock was set back, or somebody dated rows",
			v.backwardRows, v.firstBackward))
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
