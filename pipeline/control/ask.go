package control

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

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
