package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// maxNote is the size limit of a note, in bytes: a note with a few dozen cosignatures of witnesses is smaller.
const maxNote = 64 << 10

// latestPath is the file beside the log that holds the newest checkpoint, so that an older copy of
// the log that somebody puts in its place shows.
func (l *logFile) latestPath() string { return l.base + "-checkpoint" }

// writeLatest replaces the file: a process that is killed leaves the old one or the new one. It does not wait for the
// disk: after a power failure an older note may be there, which the log continues, or an empty file, which says
// nothing. The caller holds the log's write lock, so nobody else uses the name of the new one: what is there was left
// by a process that was killed, or put there by somebody who wants it followed, so it is removed and never opened.
func writeLatest(path string, note []byte) (err error) {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // which follows no link
	if err != nil {
		return err
	}
	_, err = f.Write(note)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		os.Remove(fresh)
	}
	return err
}

// ReadCheckpoint reads a file with a checkpoint; nil if there is no such file, or it is empty. What is no regular file
// is an error, and not waited for.
func ReadCheckpoint(path string) ([]byte, error) {
	f, err := statefile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	note, err := io.ReadAll(io.LimitReader(f, maxNote))
	if len(bytes.Trim(note, "\x00")) == 0 {
		return nil, err
	}
	return note, err
}

// checkLatestFile refuses to sign a log that does not continue its last checkpoint: the file beside the log must not cover
// more rows than the log has.
func (s *signer) checkLatestFile(ctx context.Context, l *logFile, origin string, head int64, newest []byte) error {
	note, err := ReadCheckpoint(l.latestPath())
	if note == nil || err != nil || bytes.Equal(note, newest) { // that one is checked in any case
		return err
	}
	c, err := checkpoint.NewKeyring(origin, nil).Open(note)
	if err == nil && c.Size > head { // another process may have appended and signed since head was read
		if head, err = lastSeq(ctx, s.conn); err != nil {
			return err
		}
	}
	if err == nil && c.Size > head && l.hasNextFile() {
		return nil // another process went on to the next file, and has signed there
	}
	if err == nil && c.Size > head {
		err = fmt.Errorf("it covers %d rows, and the log has %d: an older copy was put in the log's place", c.Size, head)
	}
	if err == nil && c.Size >= l.first-1 { // one that is older is of a file before this one, and compared by Verify
		err = s.checkSameRoot(ctx, c)
	}
	if errors.Is(err, merkle.ErrAbsent) { // of the log, and the file has nothing to do with it
		return fmt.Errorf("%w: see sandboxmcp audit verify", err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: see sandboxmcp audit verify; nothing is signed until that file is moved away", l.latestPath(), err)
	}
	return nil
}

func (s *signer) checkSameRoot(ctx context.Context, c checkpoint.Head) error {
	t, err := merkle.Reader{Ctx: ctx, Newest: s.conn}.Tree(c.Size)
	if err == nil && t.Root() != c.Root {
		err = fmt.Errorf("the rows up to %d are not what it says", c.Size)
	}
	return err
}
