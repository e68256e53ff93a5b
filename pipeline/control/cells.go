package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Cell is code for a session.
type Cell struct {
	Code      string  `json:"code"`
	Name      string  `json:"name,omitempty"`      // of the file that it comes from
	Timeout   float64 `json:"timeout,omitempty"`   // seconds; 0 is the session's
	Artifacts string  `json:"artifacts,omitempty"` // an absolute path of a directory to save new files of the session in
}

// Part is one line of what a cell answers with, in this order: the run's id; what it writes and what
// is asked because of it, as they come; what it showed; and the result, without the text that was sent already.
// A stream that ends without a result was cut off: the server has ended.
type Part struct {
	Run       string             `json:"run,omitempty"`
	Stdout    string             `json:"stdout,omitempty"`
	Stderr    string             `json:"stderr,omitempty"`
	StdoutRaw []byte             `json:"stdout_base64,omitempty"` // in the place of Stdout where it is not UTF-8
	StderrRaw []byte             `json:"stderr_base64,omitempty"`
	Asks      *approval.Question `json:"asks,omitempty"`
	Display   kernel.Bundle      `json:"display,omitempty"`
	Result    *pipeline.Result   `json:"result,omitempty"`
}

const maxCellBody = 24 << 20 // bytes of JSON: more than the longest code, written as most code can be

var errInterrupted = fmt.Errorf("interrupted at the command line: %w", context.Canceled)

// cell runs code in a session, and says what comes of it as it comes. A client that goes away has
// interrupted it.
func (l *Listener) cell(w http.ResponseWriter, r *http.Request) {
	var c Cell
	var info session.Info
	err := read(r, maxCellBody, &c)
	if err == nil {
		info, err = l.find(r.PathValue("id"))
	}
	if err == nil && c.Artifacts != "" && !filepath.IsAbs(c.Artifacts) {
		err = failure(http.StatusBadRequest, "artifacts is not an absolute path")
	}
	if err == nil && !(c.Timeout >= 0 && c.Timeout <= maxSeconds) {
		err = failure(http.StatusBadRequest, "timeout is no number of seconds")
	}
	if err != nil {
		deny(w, err)
		return
	}
	ctx, id, done := l.cells.begin(r.Context())
	defer done()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := &parts{w: w, flush: http.NewResponseController(w).Flush, broken: func() { l.cells.interrupt(id) }}
	out.send(Part{Run: id})
	res, _ := l.c.Pipeline.Do(ctx, pipeline.Request{ // what went wrong is in the result
		ID: id, Namespace: info.Namespace, Session: info.ID, Code: []byte(c.Code), Name: c.Name, Artifacts: c.Artifacts,
		Limits: backends.Limits{Wall: time.Duration(c.Timeout * float64(time.Second))},
		Stdout: cellOutput{out, 0}, Stderr: cellOutput{out, 1},
		Ask: func(_ context.Context, p *approval.Pending) { q := p.Question; out.send(Part{Asks: &q}) },
	})
	out.end(res)
}

// parts writes the lines of an answer, until the first error.
type parts struct {
	w      http.ResponseWriter
	flush  func() error
	broken func() // is called when the client is gone

	mu   sync.Mutex
	sent [2]int // bytes of stdout and stderr
	over bool
	err  error
}

// cellOutput is stdout, 0, or stderr, 1, of a cell.
type cellOutput struct {
	*parts
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
func (o *parts) text(n int, b []byte) {
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
	o.line(p)
}

func (o *parts) send(p Part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.line(p)
	}
}

func (o *parts) line(p Part) {
	if o.err != nil {
		return
	}
	b, err := json.Marshal(p)
	if err == nil {
		if _, err = o.w.Write(append(b, '\n')); err == nil {
			err = o.flush()
		}
	}
	if o.err = err; err != nil {
		o.broken()
	}
}

// end sends what the stream has not got to of the output, since the pipeline does not wait for it when a
// cell is interrupted, and the result.
func (o *parts) end(res pipeline.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for n, text := range []string{res.Stdout, res.Stderr} {
		if len(text) > o.sent[n] {
			o.text(n, []byte(text[o.sent[n]:]))
		}
	}
	for _, d := range res.Displays {
		o.line(Part{Display: d})
	}
	res.Stdout, res.Stderr, res.Displays = "", "", nil
	o.line(Part{Result: &res})
}

// cells holds the cells under way, by the id of their run.
type cells struct {
	mu  sync.Mutex
	all map[string]context.CancelCauseFunc
}

func (s *cells) begin(ctx context.Context) (_ context.Context, id string, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	id = pipeline.NewID()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id] = cancel
	return ctx, id, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, id)
	}
}

// interrupt ends a cell, and says whether there was one.
func (s *cells) interrupt(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel := s.all[id]
	if cancel != nil {
		cancel(errInterrupted)
	}
	return cancel != nil
}

func (l *Listener) interrupt(r *http.Request) (any, error) {
	if !l.cells.interrupt(strings.ToUpper(r.PathValue("id"))) {
		return nil, failure(http.StatusNotFound, "no such cell runs")
	}
	return struct{}{}, nil
}
