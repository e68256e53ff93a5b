package signer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// Names beyond these are dropped. A path that was created directory by directory may be longer than PATH_MAX; MaxCount
// names must fit into memory, and saving walks each directory of a name.
const (
	maxName  = 4096 // bytes
	maxDepth = 128  // directories
)

type collector struct {
	o              Options
	dir            *directory // nil: save nothing
	hold           spool
	buf            []byte
	bytesLeft      int64 // remaining bytes of artifacts to read
	inputBytesLeft int64 // remaining bytes of inputs to compare
	seen           map[string]bool

	artifacts        []Artifact
	skipped, dropped int
	notes            []note
}

func newCollector(o Options) (*collector, error) {
	if o.MaxCount <= 0 {
		o.MaxCount = DefaultMaxCount
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	c := &collector{
		o:              o,
		bytesLeft:      o.MaxBytes,
		inputBytesLeft: o.MaxBytes,
		seen:           map[string]bool{},

		artifacts: []Artifact{}, // [] in JSON, not null
	}
	if o.Dir == nil || o.EmptyDir {
		return c, nil
	}
	return c, c.openDirectory()
}

func (c *collector) openDirectory() error {
	top, err := c.o.Dir()
	if err != nil {
		return fmt.Errorf("open the directory for artifacts: %w", err)
	}
	c.dir = newDirectory(top, c.o.ID)
	return nil
}

func (c *collector) close() {
	c.hold.reset()
	if c.dir != nil {
		c.dir.closeSubdirectory()
	}
}

// addFile lists a file, unless it is an unchanged input or over a cap. An error ends the collection.
func (c *collector) addFile(ctx context.Context, f File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(f.Name) > maxName || strings.Count(f.Name, "/") > maxDepth {
		c.countDropped("with too long or too deep names")
		return nil
	}
	if want, ok := c.o.Unchanged[f.Name]; ok {
		if changed, err := c.isChanged(ctx, f, want); err != nil || !changed {
			return err
		}
	}
	if len(c.artifacts) >= c.o.MaxCount {
		c.countDropped(fmt.Sprintf("over the cap of %d files", c.o.MaxCount))
		return nil
	}
	if c.seen[f.Name] {
		// Reading a directory during renames can yield a name twice.
		c.countSkipped("listed twice", nil)
		return nil
	}
	if f.Size > c.bytesLeft {
		c.countOverByteCap()
		return nil
	}
	return c.hashAndStage(ctx, f)
}

// isChanged compares an input with its hash before the run. An input that can't be compared is counted as skipped or
// dropped, and reported as not changed.
func (c *collector) isChanged(ctx context.Context, f File, want string) (bool, error) {
	if f.Size > c.inputBytesLeft {
		c.countDropped("inputs too large to compare")
		return false, nil
	}
	r, err := f.Open()
	if err != nil {
		c.countUnreadable(err)
		return false, nil
	}
	defer r.Close()
	s := newScan(ctx, r, c.inputBytesLeft)
	c.readToEnd(s, f.Size)
	c.inputBytesLeft = s.bytesLeft
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case s.err == errTooLarge:
		c.countDropped("inputs too large to compare")
		return false, nil
	case s.err != nil:
		c.countUnreadable(s.err)
		return false, nil
	}
	return s.sum() != want, nil
}

// hashAndStage lists a file, and stages it unless it is withheld.
func (c *collector) hashAndStage(ctx context.Context, f File) error {
	if c.o.EmptyDir && c.dir == nil && c.o.Dir != nil {
		if err := c.openDirectory(); err != nil {
			return err
		}
	}
	r, err := f.Open()
	if err != nil {
		c.countUnreadable(err)
		return nil
	}
	defer r.Close()
	s := newScan(ctx, r, c.bytesLeft)
	a := Artifact{Name: c.o.Redact(f.Name)}
	a.Withheld, err = c.stageUnlessWithheld(ctx, f, a.Name, s)
	c.bytesLeft = s.bytesLeft
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.err == errTooLarge:
		c.countOverByteCap()
		return nil
	case s.err != nil:
		c.countUnreadable(s.err)
		return nil
	case err != nil:
		return fmt.Errorf("save artifact %q: %w", a.Name, WithoutPaths(err))
	}
	a.Size, a.SHA256, a.MIME = s.size, s.sum(), mimetype.Detect(s.head).String()
	c.seen[f.Name] = true
	c.artifacts = append(c.artifacts, a)
	return nil
}

// stageUnlessWithheld reads s to its end, and returns why the file is withheld, or "" if it was saved or saving is off.
// It returns write errors; read errors are in s.err.
func (c *collector) stageUnlessWithheld(ctx context.Context, f File, redacted string, s *scan) (withheld string, err error) {
	defer c.readToEnd(s, f.Size)
	if redacted != f.Name {
		return "a secret is in its name", nil
	}
	if why := nameProblem(f.Name); why != "" {
		return why, nil
	}
	if c.dir != nil && strings.EqualFold(f.Name, sumsName) {
		return "its name is reserved for the list of sums", nil
	}
	if c.dir != nil && strings.EqualFold(f.Name, ReceiptName) {
		return "its name is reserved for the receipt", nil
	}
	from := io.Reader(s)
	if c.o.ContainsSecret != nil {
		if withheld, err = c.searchForSecret(s, f.Size); withheld != "" || err != nil {
			return withheld, err
		}
		if from, err = c.hold.reader(); err != nil {
			return "", err
		}
	}
	if c.dir == nil || s.err != nil {
		return "", nil
	}
	err = c.dir.stage(f.Name, fs.FileMode(f.Mode)&0o755|0o600, readerWithContext(ctx, from), c.buffer(f.Size))
	if b := (*blocked)(nil); errors.As(err, &b) {
		return b.why, nil
	}
	return "", err
}

// searchForSecret searches s for a secret, reads it to its end, and spools its bytes outside of the directory: a file
// with a secret must not be there even briefly.
func (c *collector) searchForSecret(s *scan, size int64) (withheld string, err error) {
	c.hold.reset()
	r := io.Reader(s)
	if c.dir != nil {
		r = io.TeeReader(s, &c.hold)
	}
	found, err := c.o.ContainsSecret(r)
	switch {
	case c.hold.err != nil:
		return "", c.hold.err
	case s.err != nil:
		return "", nil // the caller reports it
	case err != nil:
		c.countNote("could not be searched for secrets", err)
		return "it could not be searched for secrets", nil
	case found:
		return "a secret is in it", nil
	}
	c.readToEnd(r, size)
	return "", c.hold.err
}

func (c *collector) readToEnd(r io.Reader, size int64) {
	// Without the wrapper, io.Discard would allocate a buffer.
	_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, c.buffer(size))
}

// buffer returns the buffer for copying a file of a listed size. It is small for small files, since most runs leave
// only their script.
func (c *collector) buffer(size int64) []byte {
	if want := min(max(size+1, 512), 64<<10); int64(len(c.buf)) < want {
		c.buf = make([]byte, want)
	}
	return c.buf
}

// WithoutPaths removes the paths from an error: they may be host paths, or contain a secret.
func WithoutPaths(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	if e := (*os.LinkError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
