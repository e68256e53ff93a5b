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
	Status int    // of HTTP: 404 for a session that there is not, 409 for the beginning of several ids, 410 for one that has ended
	Text   string // what went wrong
	Hint   string // what to do about it, in words of the command line; may be empty
	known  error  // that it is, of package approval
}

func (f *Failure) Error() string { return f.Text }

func (f *Failure) Unwrap() error { return f.known }

// ErrCut is the error of a stream that ended before its end: the server has ended, or was killed.
var ErrCut = errors.New("the server has ended")

// Exec runs a cell, and calls f for what it says, as it comes. An error of f ends the cell. When ctx ends, the cell is
// cancelled, and nobody waits for what it still has to say: see InterruptCell for that. An error that is no *Failure
// and no error of ctx is ErrCut, or of f.
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

// Watch calls f for what a run that is under way writes, shows and does, until it ends or f returns an error.
func (c *Client) Watch(ctx context.Context, run string, f func(Part) error) error {
	return callStream(ctx, c, watchRun, OfRun{run}, f)
}

// Events returns the events that the server remembers, and with q.Follow those that come, until ctx
// ends or the server does. The last pair may be an error; that ctx has ended is none.
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
		piece.N = maxAnswer // of each part: what runs may print without end
		err := lines.Decode(&p)
		switch {
		case err != nil && piece.N <= 0:
			return fmt.Errorf("the server says more than %d MB at once", maxAnswer>>20)
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

// endless is the server for requests that may take any time, on the same connections.
func (c *Client) endless() *operation.Server {
	at := *c.at
	at.HTTP = &http.Client{Transport: at.HTTP.Transport}
	return &at
}
