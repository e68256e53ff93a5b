package control

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
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

// Used is a living session with its current usage.
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

// answers returns the handler that replies with what f returns.
func answers(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			deny(w, err)
			return
		}
		reply(w, http.StatusOK, v)
	}
}

func (l *Listener) create(r *http.Request) (any, error) {
	var q NewSession
	if err := read(r, maxBody, &q); err != nil {
		return nil, err
	}
	if !(min(q.Idle, q.Lifetime) >= 0 && max(q.Idle, q.Lifetime) <= maxSeconds) {
		return nil, failure(http.StatusBadRequest, "idle_seconds and lifetime_seconds are from 0 to %d", int64(maxSeconds))
	}
	n := pipeline.NewSession{Namespace: q.Namespace, Language: q.Language, Backend: q.Backend, Profile: q.Profile, Allow: q.Allow,
		Limits: pipeline.BoundsOf(q.Limits), Idle: seconds(q.Idle), Lifetime: seconds(q.Lifetime)}
	if q.NoNetwork {
		n.Allow = []string{}
	}
	res, err := l.c.Pipeline.Do(r.Context(), n)
	return res.Answer, err
}

func (l *Listener) end(r *http.Request) (any, error) {
	info, err := l.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	res, err := l.c.Pipeline.Do(r.Context(), pipeline.EndSession{Namespace: info.Namespace, Session: info.ID})
	return res.Answer, err
}

func (l *Listener) state(r *http.Request) (any, error) {
	info, err := l.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return l.c.Pipeline.Inspect(r.Context(), info.Namespace, info.ID)
}

// usageWorkers is how many sessions are measured at once.
const usageWorkers = 8

// usage lists what living sessions use: one, those of a namespace, or all.
func (l *Listener) usage(r *http.Request) (any, error) {
	q := r.URL.Query()
	list := l.c.Pipeline.Sessions(q.Get("namespace"))
	if id := q.Get("session"); id != "" {
		info, err := l.find(id)
		if err == nil && info.State == "dead" {
			_, err = l.c.Pipeline.Usage(info.Namespace, info.ID) // says why
		}
		if err != nil {
			return nil, err
		}
		list = []session.Info{info}
	}
	return l.used(list), nil
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

// failure returns an error that the client is told with this status.
func failure(status int, format string, a ...any) error {
	return &Failure{Status: status, Text: fmt.Sprintf(format, a...)}
}

// statusOf returns the status of the answer to a request, and the text of its error.
func statusOf(err error) (status int, text string) {
	if err == nil {
		return http.StatusOK, ""
	}
	for _, known := range []struct {
		err    error
		status int
	}{{approval.ErrUnknown, http.StatusNotFound}, {approval.ErrAnswered, http.StatusConflict}, {approval.ErrRoot, http.StatusForbidden}} {
		if errors.Is(err, known.err) {
			return known.status, known.err.Error() // the client compares the text
		}
	}
	var own *pipeline.Error
	status = http.StatusInternalServerError
	switch {
	case errors.As(err, new(*Ambiguous)):
		status = http.StatusConflict
	case errors.Is(err, approval.ErrScope), errors.Is(err, approval.ErrQuestion):
		status = http.StatusBadRequest
	case errors.Is(err, session.ErrUnknown):
		status = http.StatusNotFound
	case errors.Is(err, session.ErrDead):
		status = http.StatusGone
	case errors.Is(err, session.ErrFull), errors.Is(err, pipeline.ErrBusy):
		status = http.StatusServiceUnavailable
	case errors.As(err, &own) && own.Denied:
		status = http.StatusUnprocessableEntity
	}
	return status, err.Error()
}

// deny replies with an error, and with the remedy where the pipeline knows one.
func deny(w http.ResponseWriter, err error) {
	var own *pipeline.Error
	var failed *Failure
	status, text := statusOf(err)
	m := message{Error: text}
	switch {
	case errors.As(err, &failed):
		status = failed.Status
	case errors.As(err, &own):
		m = message{Error: own.Reason, Hint: own.Remedy.String()}
	}
	m.Error = cmp.Or(m.Error, "something went wrong that has no name")
	reply(w, status, m)
}
