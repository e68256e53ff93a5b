package approval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// What happens to a question. In the log it follows "egress." or, for the other kinds, "approval.".
const (
	requested = "requested"
	approved  = "approved"
	denied    = "denied"
	revoked   = "revoked"
)

// rowKind is the name of the row, and of the event, for what happens to q.
func (q Question) rowKind(what string) string {
	if q.Kind == Egress {
		return "egress." + what
	}
	return "approval." + what
}

// auditEvent is one row about a question.
type auditEvent struct {
	what  string
	facts map[string]any
}

// record puts what happens to a question into the log, under the question's id: all of it or nothing.
func (b *Broker) record(ctx context.Context, q Question, happens ...auditEvent) error {
	if b.c.Audit == nil {
		return errors.New("there is no audit log, and nobody approves without a record")
	}
	entries := make([]audit.Entry, len(happens))
	for i, h := range happens {
		data := maps.Clone(h.facts)
		maps.Copy(data, map[string]any{"kind": q.Kind, "what": q.What})
		if q.CodeSHA256 != "" {
			data["code_sha256"] = q.CodeSHA256
		}
		entries[i] = audit.Entry{Kind: q.rowKind(h.what), Run: q.ID, Namespace: q.Namespace, Data: data, Late: h.what == denied || h.what == revoked}
	}
	_, err := b.c.Audit.Append(ctx, entries...)
	return err
}

// recordLate records what holds already, now or as soon as the log can be written.
func (b *Broker) recordLate(ctx context.Context, q Question, h auditEvent) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if err := b.record(ctx, q, h); err != nil {
		return fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	return nil
}

// notifyListeners tells the listeners of what is in the log and in force. There are no events of other kinds
// than egress.
func (b *Broker) notifyListeners(q Question, h auditEvent) {
	if q.Kind == Egress {
		h.facts["what"] = q.What
		b.c.Bus.Publish(event.Event{Name: q.rowKind(h.what), Time: b.c.Now(), Run: q.ID, Namespace: q.Namespace, Data: h.facts})
	}
}

// facts returns what the log has of a question: never code.
func (q Question) facts() map[string]any {
	return facts(map[string]string{"session": q.Session, "run": q.Run, "client": q.Client, "reason": q.Reason, "code_of": q.CodeOf}, map[string]any{
		"for_seconds": q.For.Seconds(), "expires": q.Expires.UTC().Format(time.RFC3339),
	})
}

func (a Answer) facts() map[string]any {
	f := facts(map[string]string{"user": a.User, "reason": a.Reason, "scope": a.Scope}, map[string]any{"by": a.By.String()})
	if !a.Until.IsZero() {
		f["until"] = a.Until.UTC().Format(time.RFC3339)
	}
	return f
}

// facts leaves out texts that are empty.
func facts(texts map[string]string, all map[string]any) map[string]any {
	for k, s := range texts {
		if s != "" {
			all[k] = s
		}
	}
	return all
}
