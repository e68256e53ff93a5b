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
	done     chan struct{} // closed after the answer and, if the answer is yes, after the apply
	Applied  changes.Applied
	Err      error // why the set was not applied after a yes
}

// Done is closed once the question is answered and Applied and Err are set.
func (a *Asked) Done() <-chan struct{} { return a.done }

// asking has the open questions of a pipeline by the id of the change set.
type asking struct {
	mu  sync.Mutex
	all map[string]*Asked
}

// FindQuestion returns the open question about a change set, given its id or its session's; nil if there is none.
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

// Ask asks a person whether a change set, without its held paths, may be applied. After a yes it is applied, even if
// the caller has given up by then.
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
		Namespace: set.Namespace, Session: set.Session, Reason: reason, Client: client, ChangeSet: set.ID, CodeHead: listPaths(set),
	}}
	pending, err := p.Config.Approvals.Open(ctx, a.Question)
	if err != nil {
		return nil, err
	}
	room.all[set.ID] = a
	p.Go(func() {
		a.await(p, pending, set)
		room.mu.Lock()
		defer room.mu.Unlock()
		delete(room.all, set.ID)
	})
	return a, nil
}

// await waits for the answer, which has a time limit, and applies the change set after a yes.
func (a *Asked) await(p *pipeline.Pipeline, pending *approval.Pending, set changes.Set) {
	defer close(a.done)
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

// maxPaths bounds the paths in a question; "sandboxmcp changes show" lists all of them.
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
