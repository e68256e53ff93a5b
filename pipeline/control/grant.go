package control

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

// GrantRequest is an approval that a person grants in advance.
type GrantRequest struct {
	Kind      string  `json:"kind" about:"The kind of permission." oneof:"egress host package" required:"true"`
	What      string  `json:"what" about:"The permission." range:"1..4096" required:"true"`
	Namespace string  `json:"namespace" about:"The namespace." range:"1..64" required:"true"`
	Session   string  `json:"session,omitempty" about:"The session. Default: the whole namespace." range:"..64"`
	Seconds   float64 `json:"seconds,omitempty" about:"Duration, a day at most. Default: an hour." range:"0..1000000000000"`
	Reason    string  `json:"reason,omitempty" about:"The reason, for the log." blank:"true"`
}

// grant approves in the name of the requester.
func (a *API) grant(ctx context.Context, g *GrantRequest) (Grant, error) {
	q, err := a.question(ctx, g)
	if err != nil {
		return Grant{}, err
	}
	by := requesterOf(ctx)
	answer := approval.Answer{Allowed: true, By: by.channel(), User: by.user, Reason: q.Reason}
	q.Reason = "" // no agent gave a reason
	held, err := a.c.Approvals.Grant(ctx, q, answer)
	if status, _ := statusOf(err); status >= http.StatusInternalServerError {
		a.c.Log.Error("control: an approval was not granted", "error", err)
	}
	return grantOf(held), err
}

// question returns the question for a request, without secrets.
func (a *API) question(ctx context.Context, g *GrantRequest) (approval.Question, error) {
	q := approval.Question{Kind: g.Kind, What: g.What, Namespace: g.Namespace, Session: g.Session, Reason: g.Reason, For: duration(g.Seconds)}
	err := requesterOf(ctx).checkNamespace(g.Namespace)
	if err == nil && a.c.Pipeline != nil {
		if e := host.RedactQuestion(ctx, a.c.Pipeline, &q); e != nil {
			err = failure(http.StatusBadRequest, "%v", e)
		}
	}
	return q, err
}

func grantOf(g approval.Grant) Grant {
	return Grant{g.Question, g.Answer.Scope, g.Answer.Until, g.Answer.By.String(), g.Answer.User, g.Answer.Reason}
}

// duration converts seconds, which are not negative, and caps them above the longest approval.
func duration(seconds float64) time.Duration {
	return time.Duration(math.Ceil(min(seconds, maxSeconds) * float64(time.Second)))
}

func (a *API) requestGrant(ctx context.Context, g *GrantRequest) (approval.Question, error) {
	q, err := a.question(ctx, g)
	if err != nil {
		return q, err
	}
	q.Client = requesterOf(ctx).describeRoute()
	p, err := a.c.Approvals.Open(ctx, q)
	if errors.As(err, new(*audit.Unwritten)) {
		return q, err
	}
	if err != nil {
		return q, failure(http.StatusBadRequest, "%v", err)
	}
	return p.Question, nil
}
