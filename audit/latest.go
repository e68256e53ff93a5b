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

// latestPath is the path of the file beside the log that has the newest checkpoint, which reveals a log that was
// replaced by an older copy.
func (l *logFile) latestPath() string { return l.base + "-checkpoint" }

// writeLatest replaces the file: a killed process leaves the old or the new one. It does not sync: after a power
// failure the file may have an older note, which the log continues, or be empty, which is harmless. The caller holds
// the log's write lock, so a file of the temporary name is a leftover of a killed process, or an attack with a link: it
// is removed and never opened.
func writeLatest(path string, note []byte) (err error) {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL follows no link
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

// ReadCheckpoint reads a file with a checkpoint; nil if there is no such file, or it is empty. It refuses other than
// regular files without waiting for them.
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

// checkLatestFile refuses to sign a log that does not continue its last checkpoint: the file beside the log must not
// cover more rows than the log has.
func (s *signer) checkLatestFile(ctx context.Context, l *logFile, origin string, head int64, newest []byte) error {
	note, err := ReadCheckpoint(l.latestPath())
	if note == nil || err != nil || bytes.Equal(note, newest) { // the caller checks the newest one
		return err
	}
	c, err := checkpoint.NewKeyring(origin, nil).Open(note)
	if err == nil && c.Size > head { // another process may have appended and signed since head was read
		if head, err = lastSeq(ctx, s.conn); err != nil {
			return err
		}
	}
	if err == nil && c.Size > head && l.hasNextFile() {
		return nil // another process continued in the next file, and signed there
	}
	if err == nil && c.Size > head {
		err = fmt.Errorf("it covers %d rows, and the log has %d: an older copy was put in the log's place", c.Size, head)
	}
	if err == nil && c.Size >= l.first-1 { // an older one belongs to an earlier file, and Verify compares it
		err = s.checkSameRoot(ctx, c)
	}
	if errors.Is(err, merkle.ErrAbsent) { // a fault of the log, not of the file
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
		err = fmt.Errorf("rows 1-%d do not match it", c.Size)
	}
	return err
}
