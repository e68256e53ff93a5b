package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
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
	return call[[]session.Info](ctx, c, http.MethodGet, "/v1/sessions"+query("namespace", namespace), nil)
}

// Create starts a session. It takes as long as it takes.
func (c *Client) Create(ctx context.Context, w NewSession) (session.Info, error) {
	return call[session.Info](ctx, c.endless(), http.MethodPost, "/v1/sessions", w)
}

// End ends a session, which an id or the beginning of one names, as for all that follow.
func (c *Client) End(ctx context.Context, id string) (session.Info, error) {
	return call[session.Info](ctx, c.endless(), http.MethodDelete, "/v1/sessions/"+url.PathEscape(id), nil)
}

// Inspect returns the variables, files and environment of a session.
func (c *Client) Inspect(ctx context.Context, id string) (session.State, error) {
	return call[session.State](ctx, c.endless(), http.MethodGet, "/v1/sessions/"+url.PathEscape(id)+"/state", nil)
}

// Usage returns the usage of living sessions: of the session with this id, or for "" of a namespace, or of all.
func (c *Client) Usage(ctx context.Context, namespace, id string) ([]Used, error) {
	return call[[]Used](ctx, c, http.MethodGet, "/v1/usage"+query("namespace", namespace, "session", id), nil)
}

// Bridge puts a value into a session.
func (c *Client) Bridge(ctx context.Context, id string, v Value) (pipeline.Result, error) {
	return call[pipeline.Result](ctx, c.endless(), http.MethodPost, "/v1/sessions/"+url.PathEscape(id)+"/bridge", v)
}

// Limits returns the limits in force in a namespace, or for the session with this id.
func (c *Client) Limits(ctx context.Context, namespace, id string) (Limits, error) {
	return call[Limits](ctx, c, http.MethodGet, "/v1/limits"+query("namespace", namespace, "session", id), nil)
}

// SetLimits changes limits, and tells what is in force then.
func (c *Client) SetLimits(ctx context.Context, q Change) (Limits, error) {
	return call[Limits](ctx, c, http.MethodPost, "/v1/limits", q)
}

// Queue returns the requests that run and that wait.
func (c *Client) Queue(ctx context.Context) (pipeline.Load, error) {
	return call[pipeline.Load](ctx, c, http.MethodGet, "/v1/queue", nil)
}

// Stats returns the server's figures.
func (c *Client) Stats(ctx context.Context) (pipeline.Stats, error) {
	return call[pipeline.Stats](ctx, c, http.MethodGet, "/v1/stats", nil)
}

// Jobs lists the runs in the background of a namespace, or all for "".
func (c *Client) Jobs(ctx context.Context, namespace string) ([]pipeline.Job, error) {
	return call[[]pipeline.Job](ctx, c, http.MethodGet, "/v1/jobs"+query("namespace", namespace), nil)
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
	body, err := c.open(ctx, http.MethodPost, "/v1/sessions/"+url.PathEscape(id)+"/cells", cell)
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
	return c.do(ctx, http.MethodPost, "/v1/cells/"+url.PathEscape(run)+"/interrupt", nil, &struct{}{})
}

// query writes what of pairs of a key and a value is not empty.
func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return ""
	}
	return "?" + v.Encode()
}

// endless is a client on the same connections whose requests may take any time.
func (c *Client) endless() *Client {
	return &Client{server: c.server, http: http.Client{Transport: c.http.Transport}}
}
