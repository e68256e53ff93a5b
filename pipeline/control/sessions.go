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

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// NewSession creates a session. Zero fields get the operator's defaults.
type NewSession struct {
	Namespace string          `json:"namespace,omitempty" about:"Its namespace. Default: \"default\"." range:"..64"`
	Language  string          `json:"language" about:"Its language." required:"true"`
	Backend   string          `json:"backend,omitempty" about:"Its isolation backend."`
	Profile   string          `json:"profile,omitempty" about:"The containment profile."`
	Allow     []string        `json:"allow,omitempty" about:"The only hosts that its cells may reach." range:"..1000" each:"A host." eachrange:"..300"`
	Workspace string          `json:"workspace,omitempty" about:"The workspace of the operator that is its /workspace." range:"..32"`
	NoNetwork bool            `json:"no_network,omitempty" about:"Disables the network."`
	Limits    pipeline.Limits `json:"limits,omitzero" about:"Its limits, at most the operator's caps."`
	Idle      float64         `json:"idle_seconds,omitempty" about:"Idle time in seconds after which it ends." range:"0..1000000"`
	Lifetime  float64         `json:"lifetime_seconds,omitempty" about:"Seconds after which it ends in any case." range:"0..1000000"`
}

// Used is a living session with its current usage.
type Used struct {
	session.Info
	Usage pipeline.CurrentUsage `json:"usage"`
}

// Ambiguous is the error for an id prefix of several sessions.
type Ambiguous struct {
	Begins string
	IDs    []string
}

func (a *Ambiguous) Error() string {
	return fmt.Sprintf("%s is how the ids of %d sessions begin: %s", a.Begins, len(a.IDs), strings.Join(a.IDs, ", "))
}

var idLike = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z]{1,26}$`) })

// findSession returns the session with an id or id prefix, preferring living ones.
func (a *API) findSession(ctx context.Context, text string) (session.Info, error) {
	unknown := fmt.Errorf("%w: %.40q", session.ErrUnknown, text)
	if !idLike().MatchString(text) {
		return session.Info{}, unknown
	}
	text = strings.ToUpper(text)
	all := slices.DeleteFunc(a.sessions(ctx, ""), func(i session.Info) bool { return !strings.HasPrefix(i.ID, text) })
	for _, some := range [][]session.Info{
		slices.DeleteFunc(slices.Clone(all), func(i session.Info) bool { return i.ID != text }),
		slices.DeleteFunc(slices.Clone(all), func(i session.Info) bool { return i.State == "dead" }),
		all,
	} {
		switch {
		case len(some) == 1:
			return some[0], nil
		case len(some) > 1:
			several := &Ambiguous{Begins: text}
			for _, i := range some {
				several.IDs = append(several.IDs, i.ID)
			}
			return session.Info{}, several
		}
	}
	return session.Info{}, unknown
}

// sessions lists the sessions of a namespace, or of all for "", that the caller may see.
func (a *API) sessions(ctx context.Context, namespace string) []session.Info {
	sees := requesterOf(ctx).sees
	return slices.DeleteFunc(session.List(a.c.Pipeline, namespace), func(i session.Info) bool { return !sees(i.Namespace) })
}

func (a *API) create(ctx context.Context, q *NewSession) (session.Info, error) {
	if err := requesterOf(ctx).checkNamespace(cmp.Or(q.Namespace, "default")); err != nil {
		return session.Info{}, err
	}
	if err := checkComputable(q.Limits); err != nil {
		return session.Info{}, err
	}
	n := session.New{Namespace: q.Namespace, Language: q.Language, Backend: q.Backend, Profile: q.Profile, Allow: q.Allow,
		Limits: pipeline.BoundsOf(q.Limits), Idle: seconds(q.Idle), Lifetime: seconds(q.Lifetime), Project: q.Workspace}
	if q.NoNetwork {
		n.Allow = []string{}
	}
	info, _, err := pipeline.Do(ctx, a.c.Pipeline, n)
	return info, err
}

func (a *API) endSession(ctx context.Context, q *OfSession) (session.Info, error) {
	info, err := a.findSession(ctx, q.ID)
	if err != nil {
		return info, err
	}
	last, _, err := pipeline.Do(ctx, a.c.Pipeline, session.End{Namespace: info.Namespace, Session: info.ID})
	return last, err
}

func (a *API) state(ctx context.Context, q *OfSession) (session.State, error) {
	info, err := a.findSession(ctx, q.ID)
	if err != nil {
		return session.State{}, err
	}
	return session.Inspect(ctx, a.c.Pipeline, info.Namespace, info.ID)
}

// usageWorkers bounds the sessions that are measured at once.
const usageWorkers = 8

// usage lists the resource use of living sessions: one, those of a namespace, or all.
func (a *API) usage(ctx context.Context, q *OfLimits) ([]Used, error) {
	list := a.sessions(ctx, q.Namespace)
	if q.Session != "" {
		info, err := a.findSession(ctx, q.Session)
		if err == nil && info.State == "dead" {
			_, err = session.UsageOf(a.c.Pipeline, info.Namespace, info.ID) // for its error
		}
		if err != nil {
			return nil, err
		}
		list = []session.Info{info}
	}
	return a.used(list), nil
}

func (a *API) used(list []session.Info) []Used {
	all, sem := make([]Used, len(list)), make(chan struct{}, usageWorkers)
	var workers sync.WaitGroup
	for i, info := range list {
		if info.State == "dead" {
			continue
		}
		sem <- struct{}{}
		workers.Go(func() {
			defer func() { <-sem }()
			if u, err := session.UsageOf(a.c.Pipeline, info.Namespace, info.ID); err == nil {
				all[i] = Used{info, u}
			}
		})
	}
	workers.Wait()
	return slices.DeleteFunc(all, func(u Used) bool { return u.ID == "" }) // ended meanwhile
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// failure returns an error with a status for the client.
func failure(status int, format string, a ...any) error {
	return &Failure{Status: status, Text: fmt.Sprintf(format, a...)}
}

// statusOf returns the status of an answer, and the text of its error.
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
	if errors.As(err, new(*audit.Unwritten)) && !errors.As(err, &own) {
		return http.StatusServiceUnavailable, audit.UnwrittenText
	}
	if errors.As(err, new(*audit.Fault)) {
		return http.StatusServiceUnavailable, audit.FaultText
	}
	switch status = session.StatusOf(err); {
	case errors.As(err, new(*Ambiguous)):
		status = http.StatusConflict
	case errors.Is(err, approval.ErrScope), errors.Is(err, approval.ErrQuestion):
		status = http.StatusBadRequest
	case errors.Is(err, session.ErrDead):
		status = http.StatusGone
	case status == http.StatusBadRequest, status == http.StatusInternalServerError && guest.ReasonOf(err) != "":
		status = http.StatusUnprocessableEntity
	}
	return status, pipeline.HideDisk(err.Error(), err)
}

// deny answers with an error, and the pipeline's remedy if it has one.
func deny(w http.ResponseWriter, err error) {
	var own *pipeline.Error
	var failed *Failure
	var full *door.Refused
	status, text := statusOf(err)
	m := message{Error: text}
	switch {
	case errors.As(err, new(operation.Invalid)):
		status, m.Hint = http.StatusBadRequest, "correct the arguments"
	case errors.As(err, &failed):
		status, m.Hint = failed.Status, failed.Hint
	case errors.As(err, &full):
		status = full.Status
	case errors.As(err, &own):
		m = message{Error: own.Reason, Hint: own.Remedy.String()}
	}
	m.Error = cmp.Or(m.Error, "something went wrong that has no name")
	door.Reply(w, status, m)
}
