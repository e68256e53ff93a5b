package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// asking has the waiting questions and the approvals.
type asking struct {
	Questions []question
	Grants    []control.Grant
	Token     string
}

type question struct {
	approval.Question
	Seconds float64 // maximum duration of an approval
	Hour    float64 // the same, an hour at most
	Left    time.Duration
	First   bool
	Token   string
}

// busy has the running effects.
type busy struct {
	Runs     []pipeline.RunningEffect
	Sessions []control.Used
	Load     pipeline.Load
	Token    string
}

func (p *Page) pendingQuestions(ctx context.Context, v *visitor) (asking, error) {
	a := asking{Token: v.token}
	list, err := p.c.Client.Approvals(ctx)
	if err != nil {
		return a, err
	}
	for i, q := range list {
		seconds := q.For.Seconds()
		a.Questions = append(a.Questions, question{q, seconds, min(seconds, 3600), time.Until(q.Expires), i == 0, v.token})
	}
	a.Grants, err = p.c.Client.Grants(ctx)
	return a, err
}

func (p *Page) runs(ctx context.Context, v *visitor) (b busy, err error) {
	b.Token = v.token
	if b.Runs, err = control.Call(ctx, p.c.Client, control.ListRunning, control.InNamespace{}); err != nil {
		return b, err
	}
	b.Runs = slices.DeleteFunc(b.Runs, func(r pipeline.RunningEffect) bool { return r.Name == "interrupt" && !r.Program })
	if b.Sessions, err = control.Call(ctx, p.c.Client, control.ListUsage, control.OfLimits{}); err != nil {
		return b, err
	}
	b.Load, err = control.Call(ctx, p.c.Client, control.GetQueue, control.NoArguments{})
	return b, err
}

// now shows the waiting questions and the running effects.
func (p *Page) now(w http.ResponseWriter, r *http.Request, v *visitor) error {
	a, err := p.pendingQuestions(r.Context(), v)
	var b busy
	if err == nil {
		b, err = p.runs(r.Context(), v)
	}
	if err != nil {
		return err
	}
	return p.renderSection(w, v, "now", wordFor("now"), map[string]any{"Asking": a, "Running": b})
}

// Intervals of updates: for a question that an agent waits for, and for the usage of programs.
const (
	askEvery = 250 * time.Millisecond
	runEvery = time.Second
)

// sendUpdates sends changes of the questions and running effects, until the browser disconnects.
func (p *Page) sendUpdates(w http.ResponseWriter, r *http.Request, v *visitor) error {
	out := stream(w, r)
	defer out.Close()
	ctx := r.Context()
	var asked, ran string
	var looked time.Time
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		a, err := p.pendingQuestions(ctx, v)
		if html := p.part("asking", a); err == nil && strip(html) != asked {
			asked = strip(html)
			err = out.SendEvent("asking", map[string]any{"html": html, "n": len(a.Questions), "first": firstOf(a)})
		}
		if err == nil && time.Since(looked) >= runEvery {
			looked = time.Now()
			p.visitors.touch(v)
			var b busy
			b, err = p.runs(ctx, v)
			if html := p.part("running", b); err == nil && html != ran {
				ran = html
				err = out.SendEvent("running", map[string]any{"html": html})
			}
		}
		if err != nil && ctx.Err() == nil {
			_ = out.SendEvent("gone", map[string]any{"why": err.Error()})
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func firstOf(a asking) string {
	if len(a.Questions) == 0 {
		return ""
	}
	return a.Questions[0].ID
}

// strip removes countdowns from a part: they are not changes, and the browser counts by itself.
func strip(html string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(html, ` data-left="`)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		_, html, _ = strings.Cut(rest, "</time>")
	}
}

// answer answers a question, or revokes an approval.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	f := r.PostForm
	verdict := control.Verdict{Reason: f.Get("reason")}
	switch how := f.Get("how"); how {
	case "deny":
	case approval.ScopeRun, approval.ScopeSession:
		verdict.Allow, verdict.Scope = true, how
	case approval.ScopeTime:
		verdict.Allow, verdict.Scope = true, how
		seconds, err := strconv.ParseFloat(f.Get("seconds"), 64)
		if f.Has("seconds") && (err != nil || !(seconds >= 0 && seconds <= 1e6)) { // also refuses NaN
			return door.Refuse(http.StatusBadRequest, wordFor("old_page"))
		}
		verdict.Seconds = seconds
	default:
		return door.Refuse(http.StatusBadRequest, wordFor("old_page"))
	}
	verdict.ID = f.Get("id")
	_, err := control.Call(r.Context(), p.c.Client, control.AnswerApproval, verdict)
	return p.done(w, r, err)
}

func (p *Page) interrupt(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	_, err := control.Call(r.Context(), p.c.Client, control.InterruptRun,
		control.Interruption{OfRun: control.OfRun{ID: r.PostForm.Get("id")}, Kill: r.PostForm.Get("how") == "kill"})
	return p.done(w, r, err)
}

func (p *Page) endSession(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	_, err := control.Call(r.Context(), p.c.Client, control.EndSession, control.OfSession{ID: r.PostForm.Get("id")})
	return p.done(w, r, err)
}

// code shows the code of a running run, with dangerous places marked.
func (p *Page) code(w http.ResponseWriter, r *http.Request, v *visitor) error {
	c, err := control.Call(r.Context(), p.c.Client, control.ShowCode, control.OfRun{ID: r.URL.Query().Get("id")})
	if err != nil {
		return err
	}
	return p.renderPart(w, "code", marked(c))
}

// session shows one session, with a prompt for code.
func (p *Page) session(w http.ResponseWriter, r *http.Request, v *visitor) error {
	id := r.URL.Query().Get("id")
	s, err := control.Call(r.Context(), p.c.Client, control.InspectSession, control.OfSession{ID: id})
	ended := ""
	if f := (*control.Failure)(nil); errors.As(err, &f) && f.Status != http.StatusNotFound { // an ended session is shown as it was
		list, e := control.Call(r.Context(), p.c.Client, control.ListSessions, control.InNamespace{})
		i := slices.IndexFunc(list, func(i session.Info) bool { return i.ID == strings.ToUpper(id) })
		if e == nil && i >= 0 {
			s, ended, err = session.State{Info: list[i]}, f.Text, nil
		}
	}
	if err != nil {
		return err
	}
	return p.renderSection(w, v, "session", wordFor("session")+" "+s.ID, map[string]any{"State": s, "Token": v.token,
		"Ended": cmp.Or(ended, s.Ended)})
}

// cell runs code in a session, and returns the id of the run, which continues if the browser disconnects.
func (p *Page) cell(w http.ResponseWriter, r *http.Request, v *visitor) error {
	id, code := r.PostForm.Get("id"), r.PostForm.Get("code")
	if strings.TrimSpace(code) == "" {
		return door.Refuse(http.StatusBadRequest, wordFor("no_code"))
	}
	if p.ctx.Err() != nil {
		return door.Refuse(http.StatusServiceUnavailable, wordFor("signed_out"))
	}
	began, failed := make(chan string, 1), make(chan error, 1)
	ctx := context.WithoutCancel(r.Context())
	p.cells.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.ctx, cancel)()
		if p.c.Watch != nil { // it continues without the browser, but not without access
			watched, end, holds := p.c.Watch(ctx, v.identity)
			defer end(nil)
			if !holds { // access was lost since the request
				failed <- door.Refuse(http.StatusUnauthorized, wordFor("signed_out"))
				return
			}
			ctx = watched
		}
		came := &typedCell{by: v, ended: make(chan struct{})}
		defer close(came.ended)
		res, err := p.c.Client.Exec(ctx, id, control.Cell{Code: code}, func(part control.Part) error {
			if run := part.Run; run != "" {
				p.typed.Store(run, came)
				time.AfterFunc(typedTime, func() { p.typed.Delete(run) })
				began <- run
			}
			came.add(part)
			return nil
		})
		if err == nil && res.Refused != nil {
			err = errors.New(res.Refused.Error())
		}
		came.finish(res, err)
		failed <- err
	})
	select {
	case run := <-began:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"run": run})
	case err := <-failed:
		return cmp.Or(err, errors.New(wordFor("no_code")))
	case <-r.Context().Done():
	}
	return nil
}

// stream begins an answer of server-sent events.
func stream(w http.ResponseWriter, r *http.Request) *door.Stream {
	if r.ProtoMajor == 1 { // browsers keep reading an abandoned answer for seconds to reuse the connection, and have only six connections
		w.Header().Set("Connection", "close")
	}
	_ = door.ClearDeadlines(w)
	return door.BeginEvents(w)
}
