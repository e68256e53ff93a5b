package audit

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// NoteError says that one of VerifyOptions.Checkpoints cannot be compared with the log: it is not a checkpoint
// (checkpoint.ErrNotCheckpoint), is of another log, or is not signed by a known key.
type NoteError struct {
	Index int // in VerifyOptions.Checkpoints
	Err   error
}

func (e *NoteError) Error() string {
	return fmt.Sprintf("kept checkpoint number %d: %v", e.Index+1, e.Err)
}

func (e *NoteError) Unwrap() error { return e.Err }

// readReferences reads the checkpoints and tables to compare with. The order matters: rows are written before the
// checkpoint that covers them, so a checkpoint that is read before the rows never covers more of them.
func (v *verification) readReferences(ctx context.Context) (*Bad, error) {
	conn, err := v.l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	difference, err := schema.Compare(ctx, conn)
	if err != nil {
		return nil, err
	}
	v.altered = difference != ""
	if err := v.readLength(ctx, conn); v.altered {
		return &Bad{0, difference}, nil
	} else if err != nil {
		return nil, err
	}
	origin, _ := readOrigin(ctx, conn) // a missing origin is a fault of the rows
	v.ring = checkpoint.NewKeyring(origin, v.keys)
	return nil, nil
}

// readLatest returns the checkpoint in the file beside the log. OpenFiles' logs have none.
func (v *verification) readLatest() ([]byte, error) {
	if v.log.named != nil {
		return nil, nil
	}
	return ReadCheckpoint(v.log.active.Load().latestPath())
}

// continueFile starts verifying a file that continues another one. If that is missing, the signed checkpoint over its
// rows vouches for them.
func (v *verification) continueFile(ctx context.Context) (*Bad, error) {
	size := v.l.first - 1
	first, err := v.l.readRow(ctx, v.l.first)
	if err != nil {
		return nil, err
	}
	var continued continuation
	if first.Kind != continuedKind || decodeExactly(first.Data, &continued) != nil || continued.Rows != size || !isHash(first.Prev) {
		return &Bad{v.l.first, "is the first of its file, and is not one that continues another: rows before it were removed"}, nil
	}
	c, err := v.ring.Open([]byte(continued.Checkpoint))
	var t merkle.Tree
	if err == nil {
		t, err = merkle.Reader{Ctx: ctx, Newest: v.l.db}.Tree(size)
	}
	switch {
	case errors.Is(err, merkle.ErrAbsent), err == nil && (c.Size != size || c.Root != t.Root() || continued.Root != c.Root.String()):
		return &Bad{0, fmt.Sprintf("%s does not continue what the checkpoint in its first row, %d, covers", v.l.path, v.l.first)}, nil
	case err != nil && !isContentError(err):
		return &Bad{v.l.first, "has a checkpoint that was changed: " + err.Error()}, nil
	case err != nil:
		return nil, err
	}
	switch here := v.chain.next == v.l.first; {
	case here && v.tree.Root() != t.Root():
		return &Bad{v.l.first, "does not continue the rows before it: its checkpoint was made over others"}, nil
	case here:
		return nil, nil
	case v.chain.next > v.l.first:
		return &Bad{v.l.first, "is there twice: two files have rows of this number"}, nil
	}
	v.absent += v.l.first - v.chain.next
	v.remarks = append(v.remarks, fmt.Sprintf("rows %d to %d are not here, the last of them in %s: their last hash is %s, and row %d has "+
		"the signed checkpoint over them",
		v.chain.next, size, continued.File, first.Prev, v.l.first))
	v.chain = chain{next: v.l.first, head: first.Prev, prev: first.Prev}
	v.tree, v.lastTime = t, time.Time{}
	for ; len(v.external) > 0 && v.external[0].Size < size; v.external = v.external[1:] {
		v.remarks = append(v.remarks, v.external[0].name+" can't be compared: the rows at its end are not here")
	}
	for ; len(v.external) > 0 && v.external[0].Size == size; v.external = v.external[1:] {
		if v.external[0].Root != t.Root() {
			return &Bad{v.l.first, fmt.Sprintf("does not continue the rows of %s", v.external[0].name)}, nil
		}
	}
	if err := c.CheckKeyAt(first.Time); err != nil {
		v.noteDoubt(size, "the checkpoint in row "+fmt.Sprint(v.l.first), err)
	} else {
		v.proven = verifiedPoint{size, first.Prev, c.Root}
	}
	return nil, nil
}

// readLength reads the current length of the log.
func (v *verification) readLength(ctx context.Context, conn *sql.Conn) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if v.head, err = lastSeq(ctx, tx); err != nil {
		return err
	}
	v.newest, err = statefile.One[int64](ctx, tx, "SELECT coalesce(max(size), 0) FROM checkpoints")
	return err
}

// parseExternal parses the checkpoints outside of the database. A caller's checkpoint may be the wrong file, which is
// not a fault of the log; the file beside the log is its own.
func (v *verification) parseExternal(latest []byte, o VerifyOptions) (*Bad, error) {
	v.remarks = append(v.remarks, v.l.worldWritable()...)
	for i, note := range o.Checkpoints {
		c, err := v.keyringFor(note).Open(note)
		switch {
		case errors.Is(err, checkpoint.ErrOtherLog): // or the log was replaced: other faults come first
			v.otherLog = cmp.Or(v.otherLog, &NoteError{i, err})
		case err != nil:
			return nil, &NoteError{i, err}
		default:
			name := fmt.Sprintf("the kept checkpoint number %d", i+1)
			if i < len(o.Names) && o.Names[i] != "" {
				name = o.Names[i]
			}
			v.external = append(v.external, namedCheckpoint{c, name})
		}
	}
	switch {
	case latest != nil:
		name := "the checkpoint in " + v.l.latestPath()
		c, err := v.keyringFor(latest).Open(latest)
		if err != nil {
			return &Bad{0, fmt.Sprintf("%s: %v", name, err)}, nil
		}
		v.external = append(v.external, namedCheckpoint{c, name})
	case v.newest > 0 && v.log.named == nil:
		v.remarks = append(v.remarks, fmt.Sprintf("%s is not there: without it, or a checkpoint kept elsewhere, an older copy in the log's "+
			"place does not show", v.l.latestPath()))
	}
	slices.SortStableFunc(v.external, func(a, b namedCheckpoint) int { return cmp.Compare(a.Size, b.Size) })
	return nil, nil
}

// worldWritable returns a warning for each of the log's file and directory that every user may write to: they could
// replace the log by an older one. Where permission bits have no meaning, it returns none.
func (l *logFile) worldWritable() (remarks []string) {
	for _, path := range []string{filepath.Dir(l.path), l.path} {
		info, err := os.Stat(path)
		if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o002 == 0 || info.IsDir() && info.Mode()&os.ModeSticky != 0 {
			continue
		}
		remarks = append(remarks, fmt.Sprintf("anybody on this machine may write to %s: chmod o-w it", path))
	}
	return remarks
}

// keyringFor returns the keyring for a note. An empty log, or one without its first row, has no name to compare.
func (v *verification) keyringFor(note []byte) checkpoint.Keyring {
	if v.ring.Origin != "" {
		return v.ring
	}
	c, _ := checkpoint.Open(note, nil)
	return checkpoint.NewKeyring(c.Origin, v.keys)
}

// remarksOfRows returns remarks about deleted files and lost rows, which rows of the last file record.
func (v *verification) remarksOfRows(ctx context.Context) (remarks []string) {
	for r, err := range v.l.rows(ctx, Filter{Kinds: []string{deletedKind, lostKind}}) {
		var f File
		switch {
		case err != nil || json.Unmarshal(r.Data, &f) != nil:
		case r.Kind == lostKind:
			remarks = append(remarks, fmt.Sprintf("row %d says that rows %d to %d, which were acknowledged, were lost before it", r.Seq, f.First,
				f.Last))
		default:
			remarks = append(remarks, fmt.Sprintf("row %d says that %s, with rows %d to %d, was deleted as it was old enough", r.Seq,
				quoteClipped(f.Path), f.First, f.Last))
		}
	}
	return remarks
}
