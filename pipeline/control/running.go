package control

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Operations on running effects of all callers.

// Code is the code of a program, with its dangerous places.
type Code struct {
	Language string            `json:"language"`
	Code     string            `json:"code"`
	Dangers  []validate.Danger `json:"dangers"`
	Note     string            `json:"note,omitempty"` // why the danger check may be incomplete
}

// pipelines returns all pipelines: handed-over runs have their own.
func (a *API) pipelines() []*pipeline.Pipeline {
	return slices.DeleteFunc([]*pipeline.Pipeline{a.c.Pipeline, a.c.Runs}, func(p *pipeline.Pipeline) bool { return p == nil })
}

func (a *API) underway(ctx context.Context, q *InNamespace) ([]pipeline.RunningEffect, error) {
	list, sees := []pipeline.RunningEffect{}, requesterOf(ctx).sees
	for i, p := range a.pipelines() {
		if i == 0 || p != a.c.Pipeline {
			list = append(list, slices.DeleteFunc(p.ListRunning(q.Namespace), func(r pipeline.RunningEffect) bool { return !sees(r.Namespace) })...)
		}
	}
	slices.SortStableFunc(list, func(x, y pipeline.RunningEffect) int { return strings.Compare(x.Run, y.Run) })
	return list, nil
}

// findRun returns a running run that the caller may see, and its pipeline.
func (a *API) findRun(ctx context.Context, id string) (*pipeline.Pipeline, pipeline.RunningEffect, error) {
	sees := requesterOf(ctx).sees
	for _, p := range a.pipelines() {
		for _, r := range p.ListRunning("") {
			if r.Run == strings.ToUpper(id) && sees(r.Namespace) {
				return p, r, nil
			}
		}
	}
	return nil, pipeline.RunningEffect{}, failure(http.StatusNotFound, "%v", pipeline.ErrNotRunning)
}

func (a *API) runningCode(ctx context.Context, q *OfRun) (Code, error) {
	p, r, err := a.findRun(ctx, q.ID)
	if err != nil {
		return Code{}, err
	}
	code, language, err := p.RunningCode(r.Namespace, r.Run)
	if err != nil {
		return Code{}, failure(http.StatusNotFound, "%v", err)
	}
	return a.reviewCode(ctx, language, string(code), r.Session != ""), nil
}

type CodeQuery struct {
	Language string `json:"language" about:"The language of the code." required:"true" range:"1..64"`
	Code     string `json:"code" about:"The source code." required:"true" blank:"true"`
}

const maxReview = 2 << 20 // bytes of a body with code to review

func (a *API) review(ctx context.Context, q *CodeQuery) (Code, error) {
	return a.reviewCode(ctx, q.Language, q.Code, true), nil
}

// reviewTime bounds a review while a person waits to decide.
const reviewTime = 5 * time.Second

// reviewCode finds dangerous places in code. A failure is not an error: a person reads the code.
func (a *API) reviewCode(ctx context.Context, language, code string, cell bool) Code {
	c := Code{Language: language, Code: code, Dangers: []validate.Danger{}}
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	name := language
	if language == validate.Command {
		name = validate.Shell
	}
	report, err := run.Analyze(ctx, a.c.Pipeline, validate.Code{Language: name, Source: []byte(code)},
		validate.Options{Cell: cell, Notebook: true})
	switch {
	case err != nil:
		c.Note = "what is dangerous in it could not be looked for: " + err.Error()
	case !report.Valid:
		c.Note = "it has errors of syntax, so not all that is dangerous in it may have been found"
	}
	c.Dangers = append(c.Dangers, report.Dangers...)
	return c
}

type Interruption struct {
	OfRun
	Kill bool `json:"kill,omitempty" about:"Kill it, instead of a signal or exception that it can handle."`
}

func (a *API) interruptRun(ctx context.Context, q *Interruption) (Late, error) {
	var res pipeline.Outcome
	p, r, err := a.findRun(ctx, q.ID)
	if err == nil {
		_, res, err = pipeline.Do(ctx, p, pipeline.Interrupt{Namespace: r.Namespace, Run: r.Run, Kill: q.Kill})
	}
	if errors.Is(err, pipeline.ErrNotRunning) { // it ended just now
		err = failure(http.StatusNotFound, "%v", pipeline.ErrNotRunning)
	}
	return Late{res.LateRowWarning()}, err
}

// watch streams the output, displays and events of a running program.
func (a *API) watch(w http.ResponseWriter, r *http.Request) {
	q, err := watchRun.Arguments(r)
	var p *pipeline.Pipeline
	var run pipeline.RunningEffect
	if err == nil {
		p, run, err = a.findRun(r.Context(), q.ID)
	}
	ctx, leave := r.Context(), func() {}
	if err == nil {
		ctx, leave, err = a.watches.Acquire(ctx, requesterOf(ctx).client())
	}
	if err != nil {
		deny(w, err)
		return
	}
	defer leave()
	if err := door.ClearDeadlines(w); err != nil {
		deny(w, err)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := &partWriter{Stream: door.BeginLines(w, r), broken: stop}
	defer out.Close()
	out.send(Part{Run: run.Run})
	sent := make(chan struct{})
	events, before, _ := a.c.Events.Listen(event.Filter{Namespace: run.Namespace}, streamBuffer, 0)
	tell := func(e event.Event) {
		if e.Run == run.Run {
			out.send(Part{Event: &e})
		}
	}
	go func() {
		defer close(sent)
		for _, e := range before {
			tell(e)
		}
		for e := range events.Events() {
			tell(e)
		}
	}()
	_ = p.FollowProgram(ctx, run.Namespace, run.Run, pipeline.Follower{
		Output: func(n int, b []byte) error { return out.sendPieces(n, b) },
		Display: func(b kernel.Bundle) error {
			out.send(Part{Display: b})
			return nil
		},
	})
	events.Cancel() // buffered events are still sent
	<-sent
}

// pieceSize bounds the output in one part, in bytes.
const pieceSize = 64 << 10

// sendPieces sends output in parts of whole characters, if it has any.
func (o *partWriter) sendPieces(n int, b []byte) error {
	for len(b) > 0 {
		size := min(len(b), pieceSize)
		for back := 0; size < len(b) && back < utf8.UTFMax && !utf8.RuneStart(b[size]); back++ {
			size--
		}
		if _, err := (cellOutput{o, n}).Write(b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}
