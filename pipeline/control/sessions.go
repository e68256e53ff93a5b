package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// NewSession asks for a session. Zero fields are the operator's defaults.
type NewSession struct {
	Namespace string         `json:"namespace,omitempty"`
	Language  string         `json:"language"`
	Backend   string         `json:"backend,omitempty"`
	Profile   string         `json:"profile,omitempty"`
	Allow     []string       `json:"allow,omitempty"` // names that its cells may reach
	NoNetwork bool           `json:"no_network,omitempty"`
	Limits    session.Limits `json:"limits,omitzero"`
	Idle      float64        `json:"idle_seconds,omitempty"`
	Lifetime  float64        `json:"lifetime_seconds,omitempty"`
}

// Used is a living session with what it uses now.
type Used struct {
	session.Info
	Usage session.Usage `json:"usage"`
}

// Ambiguous is an error about the beginning of an id that several sessions have.
type Ambiguous struct {
	Begins string
	IDs    []string
}

func (a *Ambiguous) Error() string {
	return fmt.Sprintf("%s is how the ids of %d sessions begin: %s", a.Begins, len(a.IDs), strings.Join(a.IDs, ", "))
}

var idLike = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z]{1,26}$`) })

// find returns the session whose id is, or begins with, text: the living come before the dead.
func (l *Listener) find(text string) (session.Info, error) {
	unknown := fmt.Errorf("%w: %.40q", session.ErrUnknown, text)
	if !idLike().MatchString(text) {
		return session.Info{}, unknown
	}
	text = strings.ToUpper(text)
	all := slices.DeleteFunc(l.c.Pipeline.Sessions(""), func(i session.Info) bool { return !strings.HasPrefix(i.ID, text) })
	for _, some := range [][]session.Info{
		slices.DeleteFunc(slices.Clone(all), func(i session.Info) bool { return i.ID != text }),
		slices.DeleteFunc(slices.Clone(all), func(i session.Info) bool { return i.State == "dead" }),
		all,
	} {
		switch {
		case len(some) == 1:
			return some[0], nil
		case len(some) > 1:
			a := &Ambiguous{Begins: text}
			for _, i := range some {
				a.IDs = append(a.IDs, i.ID)
			}
			return session.Info{}, a
		}
	}
	return session.Info{}, unknown
}

// found has f answer about the session that a request names.
func (l *Listener) found(f func(ctx context.Context, info session.Info) (any, error)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		info, err := l.find(r.PathValue("id"))
		if err != nil {
			deny(w, err)
			return
		}
		v, err := f(r.Context(), info)
		answer(w, v, err)
	}
}

// answer replies with v, or says what went wrong.
func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		deny(w, err)
		return
	}
	reply(w, http.StatusOK, v)
}

func (l *Listener) sessions(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, l.c.Pipeline.Sessions(r.URL.Query().Get("namespace")))
}

func (l *Listener) create(w http.ResponseWriter, r *http.Request) {
	var q NewSession
	if !read(w, r, maxBody, &q) {
		return
	}
	if !(min(q.Idle, q.Lifetime) >= 0 && max(q.Idle, q.Lifetime) <= maxSeconds) {
		deny(w, &badRequest{fmt.Sprintf("idle_seconds and lifetime_seconds are from 0 to %d", int64(maxSeconds))})
		return
	}
	n := pipeline.NewSession{Namespace: q.Namespace, Language: q.Language, Backend: q.Backend, Profile: q.Profile, Allow: q.Allow,
		Limits: pipeline.BoundsOf(q.Limits), Idle: seconds(q.Idle), Lifetime: seconds(q.Lifetime)}
	if q.NoNetwork {
		n.Allow = []string{}
	}
	info, err := l.c.Pipeline.OpenSession(r.Context(), n)
	answer(w, info, err)
}

func (l *Listener) end(ctx context.Context, info session.Info) (any, error) {
	return l.c.Pipeline.CloseSession(ctx, info.Namespace, info.ID)
}

func (l *Listener) state(ctx context.Context, info session.Info) (any, error) {
	return l.c.Pipeline.Inspect(ctx, info.Namespace, info.ID)
}

// usageWorkers is how many sessions are asked at once what they use.
const usageWorkers = 8

// usage tells what living sessions use: one, those of a namespace, or all.
func (l *Listener) usage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	list := l.c.Pipeline.Sessions(q.Get("namespace"))
	if id := q.Get("session"); id != "" {
		info, err := l.find(id)
		if err == nil && info.State == "dead" {
			_, err = l.c.Pipeline.Usage(info.Namespace, info.ID) // says why
		}
		if err != nil {
			deny(w, err)
			return
		}
		list = []session.Info{info}
	}
	reply(w, http.StatusOK, l.used(list))
}

func (l *Listener) used(list []session.Info) []Used {
	all, sem := make([]Used, len(list)), make(chan struct{}, usageWorkers)
	var workers sync.WaitGroup
	for i, info := range list {
		if info.State == "dead" {
			continue
		}
		sem <- struct{}{}
		workers.Go(func() {
			defer func() { <-sem }()
			if u, err := l.c.Pipeline.Usage(info.Namespace, info.ID); err == nil {
				all[i] = Used{info, u}
			}
		})
	}
	workers.Wait()
	return slices.DeleteFunc(all, func(u Used) bool { return u.ID == "" }) // it has ended meanwhile
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// badRequest is an error about what a client sent.
type badRequest struct{ text string }

func (b *badRequest) Error() string { return b.text }

// deny says what went wrong, with what to do about it where the pipeline knows that.
func deny(w http.ResponseWriter, err error) {
	var bad *badRequest
	var many *Ambiguous
	var own *pipeline.Error
	m, status := message{Error: err.Error()}, http.StatusInternalServerError
	switch {
	case errors.As(err, &bad):
		status = http.StatusBadRequest
	case errors.As(err, &many):
		status = http.StatusConflict
	case errors.Is(err, session.ErrUnknown):
		status = http.StatusNotFound
	case errors.Is(err, session.ErrDead):
		status = http.StatusGone
	case errors.Is(err, session.ErrFull), errors.Is(err, pipeline.ErrBusy):
		status = http.StatusServiceUnavailable
	case errors.As(err, &own) && own.Denied:
		status = http.StatusUnprocessableEntity
	}
	if errors.As(err, &own) {
		m = message{Error: own.Reason, Hint: own.Remedy.String()}
	}
	m.Error = cmp.Or(m.Error, "something went wrong that has no name")
	reply(w, status, m)
}
