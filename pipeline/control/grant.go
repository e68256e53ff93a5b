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
	var out Grant
	err := c.do(ctx, http.MethodPost, "/v1/grants", g, &out)
	return out, err
}

// grant approves in the name of the user at the other end.
func (l *Listener) grant(w http.ResponseWriter, r *http.Request) {
	q, ok := l.grantQuestion(w, r)
	if !ok {
		return
	}
	a := approval.Answer{Allowed: true, By: channel(r.Context()), User: userName(r.Context()), Reason: q.Reason}
	q.Reason = "" // nobody asked
	held, err := l.c.Approvals.Grant(r.Context(), q, a)
	switch {
	case errors.Is(err, approval.ErrQuestion), errors.Is(err, approval.ErrScope):
		refuse(w, http.StatusBadRequest, err)
	case errors.Is(err, approval.ErrRoot):
		refuse(w, http.StatusForbidden, approval.ErrRoot)
	case err != nil:
		l.c.Log.Error("control: an approval was not given", "error", err)
		refuse(w, http.StatusInternalServerError, err)
	default:
		reply(w, http.StatusOK, grantOf(held))
	}
}

// grantQuestion is what a request wants approved, without secrets. It has answered where there is none.
func (l *Listener) grantQuestion(w http.ResponseWriter, r *http.Request) (approval.Question, bool) {
	g, err := readGrant(r.Body)
	q := approval.Question{Kind: g.Kind, What: g.What, Namespace: g.Namespace, Session: g.Session, Reason: g.Reason, For: duration(g.Seconds)}
	if err == nil && l.c.Pipeline != nil {
		err = l.c.Pipeline.RedactQuestion(r.Context(), &q)
	}
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, err)
	case l.c.Approvals == nil:
		refuse(w, http.StatusNotFound, errors.New("this server has no approvals"))
	default:
		return q, true
	}
	return approval.Question{}, false
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
	var out approval.Question
	err := c.do(ctx, http.MethodPost, "/v1/approvals", g, &out)
	return out, err
}

func (l *Listener) ask(w http.ResponseWriter, r *http.Request) {
	q, ok := l.grantQuestion(w, r)
	if !ok {
		return
	}
	q.Client = fmt.Sprintf("the command line (%s)", userName(r.Context()))
	p, err := l.c.Approvals.Open(r.Context(), q)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	reply(w, http.StatusOK, p.Question)
}
