package call

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// opener is what a sandbox's files must be besides: the server opens a file later than it was listed.
type opener interface {
	// Open opens a file that was listed, and no replacement.
	Open(name string, id backends.FileID) (io.ReadCloser, error)
}

// listFiles sends an entry for each file of the workspace.
func listFiles(ctx context.Context, all backends.Files, out *stream) error {
	to := bufio.NewWriterSize(onlyWriter{out}, chunk)
	skipped, err := all.Each(ctx, func(f backends.File) error {
		l := fileEntry{[]byte(f.Name), f.Size, f.Mode, f.Changed.Unix(), int64(f.Changed.Nanosecond()), f.ID}
		return write(to, response{File: &l})
	})
	if err := write(to, response{Done: true, Skipped: skipped, Failure: failureOf(err)}); err != nil {
		return err
	}
	return to.Flush()
}

// openFile sends the content of a file that was listed, and in the trailer whether that is all of it.
func openFile(all backends.Files, out *stream, l fileEntry) error {
	files, ok := all.(opener)
	if !ok {
		return errors.ErrUnsupported
	}
	r, err := files.Open(string(l.Name), l.ID)
	if err != nil {
		return write(out, response{Failure: failureOf(err)})
	}
	defer r.Close()
	if err := write(out, response{}); err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{out}, onlyReader{r}, make([]byte, max(1, min(l.Size+1, chunk))))
	return setTrailer(out.w.Header(), response{Failure: failureOf(err)})
}
