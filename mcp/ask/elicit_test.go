package ask

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// discard is an audit log without storage.
type discard struct{}

func (discard) Append(context.Context, ...audit.Entry) ([]audit.Row, error) { return nil, nil }

// TestAwait: without an answer, a call returns before its client gives up.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := approval.New(approval.Config{Audit: discard{}})
		defer b.Close()
		p, err := b.Open(t.Context(), approval.Question{Kind: approval.Egress, What: "a.example.org", Namespace: "n"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := Asker{}.await(t.Context(), new(rpc.Message), p)
		if err != nil || got.Facts.(*ApprovalFacts).State != "pending" || time.Since(began) != maxAwait {
			t.Errorf("got %+v, %v after %v", got, err, time.Since(began))
		}
	})
}
