package audit

import (
	"context"
	"errors"
	"time"
)

// VerifyOptions are the external references of a verification.
type VerifyOptions struct {
	Keys        []Key    // one of them must have signed each checkpoint; with none, signatures are not checked
	Checkpoints [][]byte // notes that somebody has kept elsewhere
	Names       []string // what they are called in reports, one each; none is by number
}

// Report is the result of [Log.Verify].
type Report struct {
	Rows int64  `json:"rows"` // how many rows were checked and are good, from the first on, sealed ones too
	Head string `json:"head"` // hash of the last good row: who keeps it can tell later that nothing before was rewritten or cut off
	Bad  *Bad   `json:"bad,omitempty"`

	// Absent is how many more are in segments that are not here: a checkpoint vouches for them, and nobody
	// has looked at them.
	Absent int64 `json:"absent"`

	Origin     string        `json:"origin,omitempty"`     // the log's name in its checkpoints
	Root       string        `json:"root,omitempty"`       // base64 root of the Merkle tree over the good rows
	Checkpoint *CheckedPoint `json:"checkpoint,omitempty"` // the newest
	Unsigned   int64         `json:"unsigned"`             // rows after the newest checkpoint: nothing shows if these are cut off
	Segments   []Segment     `json:"segments,omitempty"`
	Remarks    []string      `json:"remarks,omitempty"` // what is not wrong by itself, but limits what was proven
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

// Verify recomputes the hashes of all rows, in the database and in the segments that are there, and with them the
// chain, the Merkle tree and the receipts. It compares the tree with each checkpoint: in the log, in the file beside
// it, and in o. Then it compares tables and triggers with what they were made as, and lets SQLite check the file.
//
// What is wrong with the log is in the report; an error means that it could not be read, or is a *NoteError
// about one of o.Checkpoints. Rows may be appended and sealed meanwhile.
func (l *Log) Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	for {
		v := verification{l: l, keys: o.Keys}
		r, err := v.run(ctx, o)
		var note *NoteError
		if errors.As(err, &note) {
			return Report{}, note
		}
		if err != nil {
			return Report{}, l.readError(err)
		}
		if r.Bad == nil || !v.sealedSince(ctx) {
			return r, nil
		} // else rows were taken out of the database while we looked for them there
	}
}
