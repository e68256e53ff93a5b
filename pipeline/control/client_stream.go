package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// Failure is the error in a server's answer.
type Failure struct {
	Status int    // HTTP status: 404 for an unknown session, 409 for an ambiguous id prefix, 410 for an ended session
	Text   string // description of the error
	Hint   string // remedy, in words of the command line; may be empty
	known  error  // equivalent error of package approval, or nil
}

func (f *Failure) Error() string { return f.Text }

func (f *Failure) Unwrap() error { return f.known }

// ErrCut is the error of an incomplete stream: the server ended, or was killed.
var ErrCut = errors.New("the server has ended")

// Exec runs a cell, and calls f for each part of its answer. An error of f ends the cell. If ctx ends, the cell is
// cancelled, and its remaining output is lost: InterruptCell avoids that. An error other than a *Failure or one of
// ctx is ErrCut, or of f.
func (c *Client) Exec(ctx context.Context, id string, cell Cell, f func(Part) error) (pipeline.Outcome, error) {
	cell.ID = id
	var res *pipeline.Outcome
	err := callStream(ctx, c, runCell, cell, func(p Part) error {
		if res = p.Result; res != nil {
			return errWhole
		}
		return f(p)
	})
	switch {
	case res != nil:
		return *res, nil
	case err == nil:
		err = ErrCut
	}
	return pipeline.Outcome{}, err
}

// Watch calls f for the output, displays and events of a running run, until it ends or f returns an error.
func (c *Client) Watch(ctx context.Context, run string, f func(Part) error) error {
	return callStream(ctx, c, watchRun, OfRun{run}, f)
}

// Events returns the events that the server remembers, and with q.Follow future ones, until ctx or the server ends.
// The last pair may be an error, but not for the end of ctx.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		err := callStream(ctx, c, streamEvents, q, func(l Line) error {
			if !yield(l, nil) {
				return errWhole
			}
			return nil
		})
		if err != nil && err != errWhole && err != ErrCut && ctx.Err() == nil {
			yield(Line{}, err)
		}
	}
}

var errWhole = errors.New("nothing comes after this part")

// callStream calls f for each part of a stream, until it ends or f returns an error.
func callStream[A, R any](ctx context.Context, c *Client, what *operation.Route[A, R], args A, f func(R) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := what.Open(ctx, c.endless(), args)
	if err != nil {
		return err
	}
	defer body.Close()
	piece := &io.LimitedReader{R: body}
	lines := json.NewDecoder(piece)
	lines.UseNumber() // numbers stay as they were written
	for {
		var p R
		piece.N = maxAnswer // limit per part: runs may print without limit
		err := lines.Decode(&p)
		switch {
		case err != nil && piece.N <= 0:
			return fmt.Errorf("the server sent more than %d MB in one part", maxAnswer>>20)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return ErrCut
		case err != nil:
			return errors.Join(ErrCut, err)
		}
		if err := f(p); err != nil {
			return err
		}
	}
}

// endless returns the server for requests without a time limit, on the same connections.
func (c *Client) endless() *operation.Server {
	at := *c.at
	at.HTTP = &http.Client{Transport: at.HTTP.Transport}
	return &at
}
