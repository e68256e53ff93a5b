package call

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/snapshot"
)

// opener is implemented by a sandbox's files: the server opens a file after listing it.
type opener interface {
	// Open opens the listed file, and never a replacement.
	Open(name string, id backends.FileID) (io.ReadCloser, error)
}

// listFiles sends an entry for each file of the workspace.
func listFiles(ctx context.Context, all backends.Files, out *stream) error {
	to := bufio.NewWriterSize(onlyWriter{out}, chunk)
	skipped, err := all.Each(ctx, func(f backends.File) error {
		l := fileEntry{[]byte(f.Name), f.Size, f.Mode, f.Changed.Unix(), int64(f.Changed.Nanosecond()), f.ID, nil, false}
		return writeMessage(to, response{File: &l})
	})
	if err := writeMessage(to, response{Done: true, Skipped: skipped, Failure: failureOf(err)}); err != nil {
		return err
	}
	return to.Flush()
}

// openFile sends the content of a listed file; its trailer tells whether it is complete.
func openFile(all backends.Files, out *stream, l fileEntry) error {
	files, ok := all.(opener)
	if !ok {
		return errors.ErrUnsupported
	}
	r, err := files.Open(string(l.Name), l.ID)
	if err != nil {
		return writeMessage(out, response{Failure: failureOf(err)})
	}
	defer r.Close()
	if err := writeMessage(out, response{}); err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{out}, onlyReader{r}, make([]byte, max(1, min(l.Size+1, chunk))))
	return setTrailer(out.w.Header(), response{Failure: failureOf(err)})
}

// unpacker is implemented by files that an archive can fill.
type unpacker interface {
	Unpack(r io.Reader) error
}

// unpack fills the workspace.
func unpack(all backends.Files, archive io.Reader) (m response) {
	files, ok := all.(unpacker)
	if !ok {
		return response{Failure: failureOf(errors.ErrUnsupported)}
	}
	err := files.Unpack(archive)
	return response{Failure: failureOf(err), Full: errors.Is(err, snapshot.ErrFull)}
}

// listChanges sends an entry for each path of an unpacked workspace.
func listChanges(ctx context.Context, all backends.Files, out *stream) error {
	to := bufio.NewWriterSize(onlyWriter{out}, chunk)
	err := all.Changes(ctx, func(c backends.Change) error {
		return writeMessage(to, response{File: &fileEntry{[]byte(c.Name), c.Size, uint32(c.Mode), c.ModTime.Unix(), int64(c.ModTime.Nanosecond()),
			c.ID, []byte(c.Target), c.Removed}})
	})
	if err := writeMessage(to, response{Done: true, Failure: failureOf(err)}); err != nil {
		return err
	}
	return to.Flush()
}
