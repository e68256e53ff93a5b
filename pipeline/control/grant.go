package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// GrantRequest is an approval that a person gives without having been asked.
type GrantRequest struct {
	Kind      string  `json:"kind"` // of package approval
	What      string  `json:"what"` // exactly what is approved
	Namespace string  `json:"namespace"`
	Session   string  `json:"session,omitempty"` // "" is all of the namespace
	Seconds   float64 `json:"seconds,omitempty"` // how long it holds; 0 is approval.DefaultFor, and approval.MaxFor the most
	Reason    string  `json:"reason,omitempty"`
}

// Grant approves what nobody has asked for, and returns what holds then.
func (c *Client) Grant(ctx context.Context, g GrantRequest) (Grant, error) {
	return call[Grant](ctx, c, http.MethodPost, "/v1/grants", g)
}

// grant approves in the name of the user at the other end.
func (l *Listener) grant(r *http.Request) (any, error) {
	q, err := l.grantQuestion(r)
	if err != nil {
		return nil, err
	}
	a := approval.Answer{Allowed: true, By: channel(r.Context()), User: userName(r.Context()), Reason: q.Reason}
	q.Reason = "" // nobody asked
	held, err := l.c.Approvals.Grant(r.Context(), q, a)
	if status, _ := statusOf(err); status == http.StatusInternalServerError {
		l.c.Log.Error("control: an approval was not given", "error", err)
	}
	return grantOf(held), err
}

// grantQuestion returns the question that a request wants approved, without secrets.
func (l *Listener) grantQuestion(r *http.Request) (approval.Question, error) {
	g, err := readGrant(r.Body)
	q := approval.Question{Kind: g.Kind, What: g.What, Namespace: g.Namespace, Session: g.Session, Reason: g.Reason, For: duration(g.Seconds)}
	if err == nil && l.c.Pipeline != nil {
		err = l.c.Pipeline.RedactQuestion(r.Context(), &q)
	}
	switch {
	case err != nil:
		return q, failure(http.StatusBadRequest, "%v", err)
	case l.c.Approvals == nil:
		return q, failure(http.StatusNotFound, "this server has no approvals")
	}
	return q, nil
}

func grantOf(g approval.Grant) Grant {
	return Grant{g.Question, g.Answer.Scope, g.Answer.Until, g.Answer.By.String(), g.Answer.User, g.Answer.Reason}
}

// duration of seconds that are not negative, as much of it as an approval could ever hold.
func duration(seconds float64) time.Duration {
	return time.Duration(math.Ceil(min(seconds, maxSeconds) * float64(time.Second)))
}

// readGrant is strict: what is misspelt must not become an approval of something wider.
func readGrant(body io.Reader) (GrantRequest, error) {
	data, err := readBody(body, maxBody)
	if err != nil {
		return GrantRequest{}, err
	}
	var g GrantRequest
	if err := decode(data, &g); err != nil {
		return GrantRequest{}, fmt.Errorf("read what is approved: %w", err)
	}
	switch {
	case g.Kind == "" || g.What == "":
		return GrantRequest{}, errors.New(`what is approved has no "kind" or no "what"`)
	case g.Namespace == "":
		return GrantRequest{}, errors.New(`what is approved has no "namespace"`)
	case g.Seconds < 0:
		return GrantRequest{}, errors.New("an approval can't hold for less than no time")
	}
	return g, nil
}

func readBody(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("a request has at most %d bytes", limit)
	}
	return data, err
}

// decode reads one JSON value that has only what v has, and nothing after it.
func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after it")
	}
	return nil
}

// Ask opens a question in the server, as an agent would, and returns it. It waits for an answer like any other.
func (c *Client) Ask(ctx context.Context, g GrantRequest) (approval.Question, error) {
	return call[approval.Question](ctx, c, http.MethodPost, "/v1/approvals", g)
}

func (l *Listener) ask(r *http.Request) (any, error) {
	q, err := l.grantQuestion(r)
	if err != nil {
		return nil, err
	}
	q.Client = fmt.Sprintf("the command line (%s)", userName(r.Context()))
	p, err := l.c.Approvals.Open(r.Context(), q)
	if err != nil {
		return nil, failure(http.StatusBadRequest, "%v", err)
	}
	return p.Question, nil
}
