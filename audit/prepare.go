package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// NoteError says that one of VerifyOptions.Checkpoints cannot be compared with the log: it is no checkpoint
// (ErrNoNote), one of another log, or not signed by a known key.
type NoteError struct {
	Index int // in VerifyOptions.Checkpoints
	Err   error
}

func (e *NoteError) Error() string {
	return fmt.Sprintf("kept checkpoint number %d: %v", e.Index+1, e.Err)
}

func (e *NoteError) Unwrap() error { return e.Err }

// prepare reads the checkpoints and tables to compare with. The order matters: rows come before the checkpoint that
// covers them, so a checkpoint that is read first never covers more than is there.
func (v *verification) prepare(ctx context.Context, o VerifyOptions) (*Bad, error) {
	latest, err := ReadCheckpoint(v.l.latestPath())
	if err != nil {
		return nil, err
	}
	conn, err := v.l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	bad, err := inspect(ctx, conn)
	if err != nil {
		return nil, err
	}
	v.altered = bad != nil
	if err := v.snapshot(ctx, conn); bad != nil {
		return bad, nil
	} else if err != nil {
		return nil, err
	}
	origin, _ := readOrigin(ctx, conn) // if there is none, the rows tell why
	v.ring = newKeyring(origin, v.keys)
	return v.keep(latest, o)
}

// snapshot reads the length of the log at a moment.
func (v *verification) snapshot(ctx context.Context, conn *sql.Conn) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if v.segments, err = v.l.segments(ctx, tx, 0); err != nil {
		return err
	}
	if v.head, err = lastSeq(ctx, tx); err != nil {
		return err
	}
	v.known = true
	v.newest, err = one[int64](ctx, tx, "SELECT coalesce(max(size), 0) FROM checkpoints")
	return err
}

// keep parses the checkpoints that are not in the database. A kept checkpoint may be the wrong file, and says nothing
// about the log then; the file beside the log is the log's own.
func (v *verification) keep(latest []byte, o VerifyOptions) (*Bad, error) {
	v.remarks = append(v.remarks, v.l.worldWritable()...)
	for i, note := range o.Checkpoints {
		c, err := v.ringFor(note).open(note)
		switch {
		case errors.Is(err, errOtherLog): // or the log was replaced: what else is wrong with it is worth more
			v.other = cmp.Or(v.other, &NoteError{i, err})
		case err != nil:
			return nil, &NoteError{i, err}
		default:
			name := fmt.Sprintf("the kept checkpoint number %d", i+1)
			if i < len(o.Names) && o.Names[i] != "" {
				name = o.Names[i]
			}
			v.external = append(v.external, point{c, name})
		}
	}
	switch {
	case latest != nil:
		name := "the checkpoint in " + v.l.latestPath()
		c, err := v.ringFor(latest).open(latest)
		if err != nil {
			return &Bad{0, fmt.Sprintf("%s: %v", name, err)}, nil
		}
		v.external = append(v.external, point{c, name})
	case v.newest > 0:
		v.remarks = append(v.remarks, fmt.Sprintf("%s is not there: without it, or a checkpoint kept elsewhere, an older copy in the log's place does not show", v.l.latestPath()))
	}
	slices.SortStableFunc(v.external, func(a, b point) int { return cmp.Compare(a.size, b.size) })
	return nil, nil
}

// worldWritable returns a warning for each of the log's file and directory that every user may write to: they could
// replace the log by an older one. It warns only where permission bits mean that.
func (l *Log) worldWritable() (remarks []string) {
	for _, path := range []string{filepath.Dir(l.path), l.path} {
		info, err := os.Stat(path)
		if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o002 == 0 || info.IsDir() && info.Mode()&os.ModeSticky != 0 {
			continue
		}
		remarks = append(remarks, fmt.Sprintf("anybody on this machine may write to %s: chmod o-w it", path))
	}
	return remarks
}

// ringFor checks a note. An empty log, or one whose first row is gone, has no name that it could miss.
func (v *verification) ringFor(note []byte) keyring {
	if v.ring.origin != "" {
		return v.ring
	}
	c, _ := openNote(note, nil)
	return newKeyring(c.origin, v.keys)
}
