package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
)

// Proof returns a proof that a row is in the log, which needs only the log's public key to check: a C2SP tlog-proof
// (https://c2sp.org/tlog-proof) with the row's JSON as extra data. id is the number of a row, or a run: then it is the
// row with the run's receipt or, if there is none, its last row. The row must be covered by a checkpoint; a Log that
// signs makes one.
func (l *Log) Proof(ctx context.Context, id string) ([]byte, error) {
	text, err := l.buildProof(ctx, id)
	return text, l.wrapFault("proof of "+quoteClipped(id)+" from", err)
}

func (l *Log) buildProof(ctx context.Context, id string) ([]byte, error) {
	about, err := l.rowForProof(ctx, id)
	if err != nil {
		return nil, err
	}
	r := about.Row
	if sum := hashRow(r); hex.EncodeToString(sum[:]) != r.Hash {
		return nil, fmt.Errorf("row %d was edited: see sandboxmcp audit verify", r.Seq)
	}
	c, note, err := l.coveringCheckpoint(ctx, about)
	if err != nil {
		return nil, err
	}
	n, err := l.treeReader(ctx, r.Seq)
	if err != nil {
		return nil, err
	}
	hashes, err := tlog.ProveRecord(c.Size, r.Seq-1, n)
	if err != nil {
		return nil, err
	}
	p := proof{row: r, hashes: hashes, note: note}
	if _, err := p.check(c); err != nil { // fail here rather than at the recipient
		return nil, fmt.Errorf("%w: see sandboxmcp audit verify", err)
	}
	return p.text()
}

// coveringCheckpoint returns the checkpoint to prove a row with: the newest.
func (l *Log) coveringCheckpoint(ctx context.Context, about stored) (c checkpoint.Head, note []byte, err error) {
	seq := about.Seq
	f, err := l.currentFile(ctx)
	if err != nil {
		return c, nil, err
	}
	c, note, err = newestCheckpoint(ctx, f.db)
	if err == nil && c.Size < seq && f.signer != nil {
		if note, err = f.checkpointNow(ctx); err == nil {
			c, err = checkpoint.Open(note, nil)
		}
	}
	if err == nil && c.Size < seq {
		err = fmt.Errorf("row %d is not signed yet: %w", seq, errNoSigner)
	}
	return c, note, err
}

// proof is a tlog-proof of a row.
type proof struct {
	row    Row
	hashes tlog.RecordProof
	note   []byte
}

const proofHead = "c2sp.org/tlog-proof@v1\n"

// ErrNoProof is the error for text that is not a proof.
var ErrNoProof = errors.New("it is not a tlog-proof, whose first line is " + strings.TrimSpace(proofHead))

func (p proof) text() ([]byte, error) {
	row, err := json.Marshal(p.row)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%sextra %s\nindex %d\n", proofHead, base64.StdEncoding.EncodeToString(row), p.row.Seq-1)
	for _, h := range p.hashes {
		fmt.Fprintf(&b, "%s\n", h)
	}
	fmt.Fprintf(&b, "\n%s", p.note)
	return b.Bytes(), nil
}

// Proven is the statement of a proof: Row was in the log Origin when it had Size rows.
type Proven struct {
	Row    Row    `json:"row"`
	Origin string `json:"origin"`
	Size   int64  `json:"size"`
	Root   string `json:"root"` // base64
}

// CheckProof checks a proof of Log.Proof offline. An error says which step fails. A call without keys is an error,
// since it proves nothing.
func CheckProof(text []byte, keys []checkpoint.Key) (Proven, error) {
	p, err := parseProof(text)
	if err != nil {
		return Proven{}, fmt.Errorf("the proof proves nothing: %w", err)
	}
	if len(keys) == 0 {
		return Proven{}, errors.New("the proof proves nothing: a public key is needed")
	}
	c, err := checkpoint.Open(p.note, keys)
	if err != nil {
		return Proven{}, fmt.Errorf("the proof proves nothing: the checkpoint in it: %w", err)
	}
	proven, err := p.check(c)
	if err == nil {
		err = c.CheckKeyAt(p.row.Time)
	}
	if err != nil {
		return Proven{}, fmt.Errorf("the proof proves nothing: %w", err)
	}
	return proven, nil
}

// check verifies that the checkpoint covers the row.
func (p proof) check(c checkpoint.Head) (Proven, error) {
	hash := hashRow(p.row)
	if hex.EncodeToString(hash[:]) != p.row.Hash {
		return Proven{}, fmt.Errorf("row %d in it was edited: its hash does not match what it says", p.row.Seq)
	}
	if p.row.Seq > c.Size {
		return Proven{}, fmt.Errorf("its checkpoint covers %d rows, and row %d is none of them", c.Size, p.row.Seq)
	}
	if err := tlog.CheckRecord(p.hashes, c.Size, c.Root, p.row.Seq-1, merkle.Leaf(hash[:])); err != nil {
		return Proven{}, fmt.Errorf("row %d in it is not the one that its checkpoint covers", p.row.Seq)
	}
	return Proven{p.row, c.Origin, c.Size, c.Root.String()}, nil
}

// Limits of a proof, so that an untrusted file costs little: a row of maxData with each byte escaped and in base64,
// and a tree of 2^63 rows.
const (
	maxProof  = 12 << 20
	maxHashes = 63
)

func parseProof(text []byte) (p proof, err error) {
	if len(text) > maxProof {
		return p, fmt.Errorf("it has more than %d bytes", maxProof)
	}
	rest, ok := strings.CutPrefix(string(text), proofHead)
	if !ok {
		return p, ErrNoProof
	}
	head, note, ok := strings.Cut(rest, "\n\n")
	if !ok {
		return p, errors.New("there is no checkpoint in it")
	}
	p.note = []byte(note)
	lines := strings.Split(head, "\n")
	extra, ok := strings.CutPrefix(lines[0], "extra ")
	if !ok || len(lines) < 2 {
		return p, errors.New("there is no row in it")
	}
	row, err := base64.StdEncoding.Strict().DecodeString(extra)
	if err == nil {
		err = decodeExactly(row, &p.row)
	}
	if err != nil || !isHash(p.row.Prev) || p.row.Seq < 1 {
		return p, errors.New("its extra data is not a row of an audit log")
	}
	if lines[1] != fmt.Sprintf("index %d", p.row.Seq-1) {
		return p, fmt.Errorf("its index is not that of row %d", p.row.Seq)
	}
	if len(lines)-2 > maxHashes {
		return p, fmt.Errorf("it has %d hashes, and the largest tree needs %d", len(lines)-2, maxHashes)
	}
	for _, line := range lines[2:] {
		h, err := tlog.ParseHash(line)
		if err != nil || h.String() != line {
			return p, errors.New("a line in it is not a hash")
		}
		p.hashes = append(p.hashes, h)
	}
	return p, nil
}

// CheckContinues checks that the log continues a checkpoint from elsewhere, and returns the number of rows that it
// covers: it is signed by one of keys (without keys, by any key), is of this log, and matches the log's first rows.
func (l *Log) CheckContinues(ctx context.Context, note []byte, keys []checkpoint.Key) (size int64, err error) {
	f, err := l.currentFile(ctx)
	var origin string
	if err == nil {
		origin, err = readOrigin(ctx, f.db)
	}
	if err != nil {
		return 0, l.readError(err)
	}
	c, err := checkpoint.NewKeyring(origin, keys).Open(note)
	if err != nil {
		return c.Size, err
	}
	head, err := lastSeq(ctx, f.db)
	if err == nil && c.Size > head {
		return c.Size, fmt.Errorf("it covers %d rows, and the log has %d: %w", c.Size, head, ErrOlder)
	}
	var n merkle.Reader
	if err == nil {
		n, err = l.treeReader(ctx, c.Size)
	}
	var t merkle.Tree
	if err == nil {
		t, err = n.Tree(c.Size)
	}
	if err == nil && t.Root() != c.Root {
		return c.Size, fmt.Errorf("rows 1-%d do not match it: they were rewritten", c.Size)
	}
	return c.Size, l.readError(err)
}

// ErrOlder is the error for a log that has fewer rows than a checkpoint of it.
var ErrOlder = fmt.Errorf("rows were cut off, or an older copy was put in the log's place")

// Consistency returns an RFC 6962 consistency proof from size old to size. It is nil if old is 0 or size.
func (l *Log) Consistency(ctx context.Context, old, size int64) ([]tlog.Hash, error) {
	if old == 0 || old == size {
		return nil, nil
	}
	n, err := l.treeReader(ctx, old)
	var p tlog.TreeProof
	if err == nil {
		p, err = tlog.ProveTree(size, old, n)
	}
	return p, l.readError(err)
}

// CheckpointSize returns the number of rows that a checkpoint of any log covers, without checking its signature.
func CheckpointSize(note []byte) (int64, error) {
	c, err := checkpoint.Open(note, nil)
	return c.Size, err
}

// decodeExactly decodes JSON that was written by encoding v, and refuses any other spelling, which two readers could
// understand differently.
func decodeExactly(line []byte, v any) error {
	if err := json.Unmarshal(line, v); err != nil {
		return ErrNoProof
	}
	if again, err := json.Marshal(v); err != nil || !bytes.Equal(again, line) {
		return ErrNoProof
	}
	return nil
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == hashSize && hex.EncodeToString(b) == s
}
