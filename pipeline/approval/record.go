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

// Steps of a question. Their row kinds begin with "egress." or, for the other kinds, with "approval.".
const (
	requested = "requested"
	approved  = "approved"
	denied    = "denied"
	revoked   = "revoked"
)

// rowKind returns the kind of the row, and the name of the event, for a step of q.
func (q Question) rowKind(step string) string {
	if q.Kind == Egress {
		return "egress." + step
	}
	return "approval." + step
}

// auditEvent is one row about a question.
type auditEvent struct {
	step  string
	facts map[string]any
}

// record writes steps of a question to the log under the question's id: all of them or none.
func (b *Broker) record(ctx context.Context, q Question, steps ...auditEvent) error {
	if b.c.Audit == nil {
		return errors.New("there is no audit log, and approvals require one")
	}
	entries := make([]audit.Entry, len(steps))
	for i, h := range steps {
		data := maps.Clone(h.facts)
		maps.Copy(data, map[string]any{"kind": q.Kind, "what": q.What})
		if q.CodeSHA256 != "" {
			data["code_sha256"] = q.CodeSHA256
		}
		entries[i] = audit.Entry{Kind: q.rowKind(h.step), Run: q.ID, Namespace: q.Namespace, Data: data, Late: h.step == denied ||
			h.step == revoked}
	}
	_, err := b.c.Audit.Append(ctx, entries...)
	return err
}

// recordLate records a step that has taken effect, now or as soon as the log can be written.
func (b *Broker) recordLate(ctx context.Context, q Question, h auditEvent) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if err := b.record(ctx, q, h); err != nil {
		return fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	return nil
}

// notifyListeners publishes a step that is in the log and in force. Only egress has events.
func (b *Broker) notifyListeners(q Question, h auditEvent) {
	if q.Kind == Egress {
		h.facts["what"] = q.What
		b.c.Bus.Publish(event.Event{Name: q.rowKind(h.step), Time: b.c.Now(), Run: q.ID, Namespace: q.Namespace, Data: h.facts})
	}
}

// facts returns the facts of a question for the log: never code.
func (q Question) facts() map[string]any {
	return facts(map[string]string{"session": q.Session, "run": q.Run, "client": q.Client, "reason": q.Reason, "code_of": q.CodeOf},
		map[string]any{
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

// facts adds the texts that are not empty to all, and returns it.
func facts(texts map[string]string, all map[string]any) map[string]any {
	for k, s := range texts {
		if s != "" {
			all[k] = s
		}
	}
	return all
}
