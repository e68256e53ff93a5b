package workspace

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
)

// Asked is a question to a person whether a change set may be applied.
type Asked struct {
	Question approval.Question
	done     chan struct{} // closed when it was answered and, if the answer was yes, the set was applied
	Applied  changes.Applied
	Err      error // why it was not applied, though a person said yes
}

// Done is closed when Applied and Err are set: the question is answered, and what it allowed is done.
func (a *Asked) Done() <-chan struct{} { return a.done }

// asking are the questions of a pipeline that wait, by the id of the change set.
type asking struct {
	mu  sync.Mutex
	all map[string]*Asked
}

// FindQuestion returns the open question about a change set, or about one of a session; nil without one.
func FindQuestion(p *pipeline.Pipeline, namespace, id string) *Asked {
	room := askingOf(p)
	room.mu.Lock()
	defer room.mu.Unlock()
	for set, a := range room.all {
		if a.Question.Namespace == pipeline.NamespaceOrDefault(namespace) && (set == id || a.Question.Session == id) {
			return a
		}
	}
	return nil
}

func askingOf(p *pipeline.Pipeline) *asking {
	return pipeline.PackageState(p, func(*pipeline.Pipeline) *asking { return &asking{all: map[string]*Asked{}} })
}

// Ask asks a person whether a change set may be applied, all of it that is not held back. A yes has that done, also
// when the caller has given up by then.
func Ask(ctx context.Context, p *pipeline.Pipeline, namespace, id, reason, client string) (*Asked, error) {
	if p.Config.Approvals == nil {
		return nil, pipeline.Refuse(pipeline.StageValidate, "nobody can be asked: approvals are off on this server",
			"have a person apply them: sandboxmcp changes")
	}
	set, err := Get(p, namespace, id)
	if err != nil {
		return nil, err
	}
	if set.Status != changes.StatusProposed {
		return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("change set %s is %s already", set.ID, set.Status),
			"run code that changes more, and ask for its change set")
	}
	room := askingOf(p)
	room.mu.Lock()
	defer room.mu.Unlock()
	if a := room.all[set.ID]; a != nil {
		return a, nil
	}
	a := &Asked{done: make(chan struct{}), Question: approval.Question{
		Kind: approval.Changes, What: fmt.Sprintf("apply change set %s to workspace %s: %s", set.ID, nameOf(p, set.Dir), set.Counts),
		Namespace: set.Namespace, Session: set.Session, Reason: reason, Client: client, CodeHead: listPaths(set),
	}}
	pending, err := p.Config.Approvals.Open(ctx, a.Question)
	if err != nil {
		return nil, err
	}
	room.all[set.ID] = a
	go a.await(p, pending, set, func() {
		room.mu.Lock()
		defer room.mu.Unlock()
		delete(room.all, set.ID)
	})
	return a, nil
}

// await waits for the answer, which comes in a bounded time, and applies the change set if it is yes.
func (a *Asked) await(p *pipeline.Pipeline, pending *approval.Pending, set changes.Set, forget func()) {
	defer close(a.done)
	defer forget()
	answer, err := pending.Wait(context.Background())
	if err != nil || !answer.Allowed {
		return
	}
	ctx := pipeline.WithCaller(context.Background(), pipeline.Caller{By: answer.By.String(), User: answer.User})
	a.Applied, _, a.Err = pipeline.Do(ctx, p, Apply{Namespace: set.Namespace, ID: set.ID})
}

// nameOf returns the operator's name of a directory, or its path if it has none.
func nameOf(p *pipeline.Pipeline, dir string) string {
	for _, n := range pipeline.PackageSettings[Config](p).Named {
		if n.Path == dir {
			return n.Name
		}
	}
	return dir
}

// maxPaths bounds the paths of a question; a person sees all of them by "sandboxmcp changes show".
const maxPaths = 20

// listPaths lists the first paths of a change set for people.
func listPaths(set changes.Set) string {
	var lines []string
	groups := set.Groups(maxPaths)
	for _, g := range groups[:min(len(groups), maxPaths)] {
		line := safetext.Text(g.Path)
		if len(g.Entries) == 1 && g.Entries[0].Held != "" {
			line += " (held back: " + g.Entries[0].Held + ")"
		}
		lines = append(lines, line)
	}
	if more := len(groups) - maxPaths; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, ", ")
}
