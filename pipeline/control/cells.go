package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Cell is code for a session.
type Cell struct {
	OfSession
	Code      string  `json:"code" about:"The source code to run." required:"true" blank:"true"`
	Name      string  `json:"name,omitempty" about:"The name of its source file."`
	Timeout   float64 `json:"timeout,omitempty" about:"Time limit in seconds. Default: the session's." range:"0..1000000"`
	Artifacts string  `json:"artifacts,omitempty" about:"An absolute path of a directory for the session's new files; only on the server's own socket."`
}

// Part is one line of a cell's answer, in this order: the run's id; its output and its questions, as they come; its
// displays; and the result, without the text that was sent already. A stream without a result was cut off, because
// the server ended.
type Part struct {
	Run       string             `json:"run,omitempty"`
	Stdout    string             `json:"stdout,omitempty"`
	Stderr    string             `json:"stderr,omitempty"`
	StdoutRaw []byte             `json:"stdout_base64,omitempty"` // replaces Stdout if it is not UTF-8
	StderrRaw []byte             `json:"stderr_base64,omitempty"`
	Asks      *approval.Question `json:"asks,omitempty"`
	Display   kernel.Bundle      `json:"display,omitempty"`
	Event     *event.Event       `json:"event,omitempty"` // about a watched run
	Result    *pipeline.Outcome  `json:"result,omitempty"`
}

// Output returns the stdout and stderr of the part.
func (p Part) Output() [2][]byte {
	return [2][]byte{append([]byte(p.Stdout), p.StdoutRaw...), append([]byte(p.Stderr), p.StderrRaw...)}
}

const maxCellBody = 24 << 20 // bytes of JSON: enough for the longest code with typical escapes

var errInterrupted = fmt.Errorf("interrupted at the command line: %w", context.Canceled)

// cell runs code in a session and streams the answer. A client that disconnects interrupts the cell.
func (a *API) cell(w http.ResponseWriter, r *http.Request) {
	var info session.Info
	c, err := runCell.Arguments(r)
	if err == nil {
		info, err = a.findSession(r.Context(), c.ID)
	}
	switch {
	case err != nil:
	case c.Artifacts != "" && !requesterOf(r.Context()).peer: // the server writes it with its own permissions
		err = failure(http.StatusForbidden, "artifacts needs the server's own socket: fetch the files of the run instead")
	case c.Artifacts != "" && !filepath.IsAbs(c.Artifacts):
		err = failure(http.StatusBadRequest, "artifacts is not an absolute path")
	}
	if err != nil {
		deny(w, err)
		return
	}
	ctx, id, done := a.cells.startCell(r.Context(), info.Namespace)
	defer done()
	out := &partWriter{Stream: door.BeginLines(w, r), broken: func() { a.cells.interrupt(id, requesterOf(r.Context()).sees) }}
	defer out.Close()
	out.send(Part{Run: id})
	_, res, _ := pipeline.Do(ctx, a.c.Pipeline, run.Request{ // the result has the error
		ID: id, Namespace: info.Namespace, Where: run.Where{Session: info.ID}, Code: []byte(c.Code), Name: c.Name, Artifacts: c.Artifacts,
		Bounds:  pipeline.Bounds{Limits: backends.Limits{Wall: seconds(c.Timeout)}},
		Streams: run.Streams{Stdout: cellOutput{out, 0}, Stderr: cellOutput{out, 1}},
		Reach:   run.Reach{Ask: func(_ context.Context, p *approval.Pending) { q := p.Question; out.send(Part{Asks: &q}) }},
	})
	out.sendResult(res)
}

// partWriter writes the lines of an answer, until the first error.
type partWriter struct {
	*door.Stream
	broken func() // called when the client has disconnected

	mu   sync.Mutex
	err  error  // the first error
	sent [2]int // bytes of stdout and stderr
	over bool
}

// cellOutput is stdout, 0, or stderr, 1, of a cell.
type cellOutput struct {
	*partWriter
	n int
}

func (o cellOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return 0, errors.New("the answer has ended")
	}
	o.text(o.n, b)
	return len(b), o.err
}

// text sends output. The caller holds the lock.
func (o *partWriter) text(n int, b []byte) {
	o.sent[n] += len(b)
	p := Part{}
	switch isText := utf8.Valid(b); {
	case n == 0 && isText:
		p.Stdout = string(b)
	case n == 0:
		p.StdoutRaw = b
	case isText:
		p.Stderr = string(b)
	default:
		p.StderrRaw = b
	}
	o.part(p)
}

func (o *partWriter) send(p Part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.part(p)
	}
}

func (o *partWriter) part(p Part) {
	if o.err != nil {
		return
	}
	if o.err = o.SendLine(p); o.err != nil {
		o.broken()
	}
}

// sendResult sends the rest of the output, because the pipeline does not wait for the stream when a cell is
// interrupted, and the result.
func (o *partWriter) sendResult(res pipeline.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for n, text := range []string{res.Stdout, res.Stderr} {
		if len(text) > o.sent[n] {
			o.text(n, []byte(text[o.sent[n]:]))
		}
	}
	for _, d := range res.Displays {
		o.part(Part{Display: d})
	}
	res.Stdout, res.Stderr, res.Displays = "", "", nil
	o.part(Part{Result: &res})
}

// cells holds the running cells, by the id of their run.
type cells struct {
	mu  sync.Mutex
	all map[string]underway
}

type underway struct {
	namespace string
	cancel    context.CancelCauseFunc
}

func (s *cells) startCell(ctx context.Context, namespace string) (_ context.Context, id string, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	id = pipeline.NewID()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id] = underway{namespace, cancel}
	return ctx, id, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, id)
	}
}

// interrupt interrupts a cell of a visible namespace, and reports whether it was running.
func (s *cells) interrupt(id string, sees func(namespace string) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.all[id]
	if ok = ok && sees(c.namespace); ok {
		c.cancel(errInterrupted)
	}
	return ok
}

func (a *API) interrupt(ctx context.Context, q *OfRun) (NoArguments, error) {
	if !a.cells.interrupt(strings.ToUpper(q.ID), requesterOf(ctx).sees) {
		return NoArguments{}, failure(http.StatusNotFound, "no such cell is running")
	}
	return NoArguments{}, nil
}
