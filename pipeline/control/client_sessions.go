package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Failure is the error in a server's answer.
type Failure struct {
	Status int    // of HTTP: 404 for a session that there is not, 409 for the beginning of several ids, 410 for one that has ended
	Text   string // what went wrong
	Hint   string // what to do about it, in words of the command line; may be empty
}

func (f *Failure) Error() string { return f.Text }

// ErrCut is the error of a stream that ended before its end: the server has ended, or was killed.
var ErrCut = errors.New("the server has ended")

// Sessions lists the sessions of a namespace, or all for "": those that live, and then the last that have ended.
func (c *Client) Sessions(ctx context.Context, namespace string) ([]session.Info, error) {
	return listSessions.Call(ctx, c.at, inNamespace{namespace})
}

// Create starts a session. It takes as long as it takes.
func (c *Client) Create(ctx context.Context, w NewSession) (session.Info, error) {
	return createSession.Call(ctx, c.endless(), w)
}

// End ends a session, which an id or the beginning of one names, as for all that follow.
func (c *Client) End(ctx context.Context, id string) (session.Info, error) {
	return endSession.Call(ctx, c.endless(), ofSession{id})
}

// Inspect returns the variables, files and environment of a session.
func (c *Client) Inspect(ctx context.Context, id string) (session.State, error) {
	return inspect.Call(ctx, c.endless(), ofSession{id})
}

// Usage returns the usage of living sessions: of the session with this id, or for "" of a namespace, or of all.
func (c *Client) Usage(ctx context.Context, namespace, id string) ([]Used, error) {
	return listUsage.Call(ctx, c.at, ofLimits{inNamespace{namespace}, id})
}

// Bridge puts a value into a session.
func (c *Client) Bridge(ctx context.Context, id string, v Value) (pipeline.Result, error) {
	return bridge.Call(ctx, c.endless(), valueIn{ofSession{id}, v})
}

// Limits returns the limits in force in a namespace, or for the session with this id.
func (c *Client) Limits(ctx context.Context, namespace, id string) (Limits, error) {
	return getLimits.Call(ctx, c.at, ofLimits{inNamespace{namespace}, id})
}

// SetLimits changes limits, and tells what is in force then.
func (c *Client) SetLimits(ctx context.Context, q Change) (Limits, error) {
	return setLimits.Call(ctx, c.at, q)
}

// Queue returns the requests that run and that wait.
func (c *Client) Queue(ctx context.Context) (pipeline.Load, error) {
	return getQueue.Call(ctx, c.at, nothing{})
}

// Stats returns the server's figures.
func (c *Client) Stats(ctx context.Context) (pipeline.Stats, error) {
	return getStats.Call(ctx, c.at, nothing{})
}

// Jobs lists the runs in the background of a namespace, or all for "".
func (c *Client) Jobs(ctx context.Context, namespace string) ([]pipeline.Job, error) {
	return listJobs.Call(ctx, c.at, inNamespace{namespace})
}

// Watcher receives the events of a cell, in the order of the stream. Fields may be nil.
type Watcher struct {
	Began          func(run string)
	Stdout, Stderr func([]byte) error // an error ends the cell
	Asks           func(approval.Question)
	Display        func(kernel.Bundle)
}

// Exec runs a cell. When ctx ends, the cell is cancelled, and nobody waits for what it still has to say: see
// Interrupt for that. An error that is no *Failure and no error of ctx is ErrCut, or of w.
func (c *Client) Exec(ctx context.Context, id string, cell Cell, w Watcher) (pipeline.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := runCell.Open(ctx, c.endless(), cellIn{ofSession{id}, cell})
	if err != nil {
		return pipeline.Result{}, err
	}
	defer body.Close()
	piece := &io.LimitedReader{R: body}
	for lines := json.NewDecoder(piece); ; {
		var p Part
		piece.N = maxAnswer // of each part: what runs may print without end
		err := lines.Decode(&p)
		if err != nil && piece.N <= 0 {
			return pipeline.Result{}, fmt.Errorf("the server says more than %d MB at once", maxAnswer>>20)
		}
		switch {
		case ctx.Err() != nil:
			return pipeline.Result{}, context.Cause(ctx)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return pipeline.Result{}, ErrCut
		case err != nil:
			return pipeline.Result{}, errors.Join(ErrCut, err)
		case p.Result != nil:
			return *p.Result, nil
		}
		if err := w.tell(p); err != nil {
			return pipeline.Result{}, err
		}
	}
}

func (w Watcher) tell(p Part) (err error) {
	for _, part := range []struct {
		text string
		raw  []byte
		to   func([]byte) error
	}{{p.Stdout, p.StdoutRaw, w.Stdout}, {p.Stderr, p.StderrRaw, w.Stderr}} {
		text := append([]byte(part.text), part.raw...)
		if len(text) > 0 && part.to != nil && err == nil {
			err = part.to(text)
		}
	}
	if p.Run != "" && w.Began != nil {
		w.Began(p.Run)
	}
	if p.Asks != nil && w.Asks != nil {
		w.Asks(*p.Asks)
	}
	if p.Display != nil && w.Display != nil {
		w.Display(p.Display)
	}
	return err
}

// Interrupt interrupts the cell of a run, whose stream goes on to its end.
func (c *Client) Interrupt(ctx context.Context, run string) error {
	_, err := interruptCell.Call(ctx, c.at, ofRun{run})
	return err
}

// endless is the server for requests that may take any time, on the same connections.
func (c *Client) endless() *operation.Server {
	at := *c.at
	at.HTTP = &http.Client{Transport: at.HTTP.Transport}
	return &at
}
