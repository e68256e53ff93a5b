package session

import (
	"cmp"
	"context"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// ProposeChanges stores the changes of a living session's workspace as a change set, in place of the one before if
// nobody has decided about that. The result is the set without its entries, or nil if nothing differs.
type ProposeChanges struct{ Namespace, Session string }

func (q ProposeChanges) Subject() pipeline.Subject {
	return pipeline.About("changes_propose", q.Namespace, q.Session)
}

func (q ProposeChanges) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[*changes.Set], error) {
	s, err := FindSession(r.Pipeline, q.Namespace, q.Session)
	if err != nil {
		return nil, err
	}
	return lastProposal{s}.Plan(ctx, r)
}

// lastProposal is ProposeChanges for a session that nobody finds any more.
type lastProposal struct{ *Session }

func (q lastProposal) Subject() pipeline.Subject {
	info := q.Info()
	return pipeline.About("changes_propose", info.Namespace, info.ID)
}

// Plan takes no place in the queue: a session ends while its code runs, too.
func (q lastProposal) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[*changes.Set], error) {
	info := q.Info()
	if q.plan.View == nil {
		return nil, pipeline.Refuse(pipeline.StageValidate, "the session has no workspace that it could change", "start one with ",
			remedy.Workspace)
	}
	r.Leases, r.Outcome.Language, r.Outcome.Backend, r.Outcome.Profile = q.Leases(), info.Language, info.Backend, info.Profile
	r.Facts["tool"], r.Facts["what"] = r.Outcome.Name, q.plan.View.Dir
	return &pipeline.Task[*changes.Set]{Run: r, Stage: pipeline.StageBackend, Do: func(ctx context.Context) (*changes.Set, error) {
		err := workspace.Propose(ctx, r, q.View())
		set := r.Outcome.Changes
		q.Change(func(i *Info) { i.Changes = set })
		return set, err
	}}, nil
}

// maxProposing bounds how long a session that ends lives on until its changes are stored.
const maxProposing = 2 * time.Minute

// proposeLast stores the changes of a session that ends.
func proposeLast(p *pipeline.Pipeline, s *Session) {
	ctx, cancel := context.WithTimeout(context.Background(), maxProposing)
	defer cancel()
	if _, _, err := pipeline.Do(ctx, p, lastProposal{s}); err != nil {
		s.Change(func(i *Info) { i.ChangesFailed = err.Error() })
	}
}

// View returns the workspace of the session, whose changes can be proposed; without one, Dir is "".
func (s *Session) View() workspace.View {
	v := *cmp.Or(s.plan.View, &workspace.View{})
	v.Files = s.Sandbox().Files()
	return v
}

// EachFile calls do for each file of the session; of a workspace of the host, for those that the session has changed.
func (s *Session) EachFile(ctx context.Context, do func(backends.File) error) (skipped int, err error) {
	files := s.Sandbox().Files()
	switch {
	case s.Info().Workspace == "":
		return files.Each(ctx, do)
	case s.plan.View == nil:
		return 0, nil
	}
	return 0, files.Changes(ctx, func(c backends.Change) error {
		if c.Open == nil {
			return nil
		}
		return do(backends.File{Name: c.Name, Size: c.Size, Mode: uint32(c.Mode.Perm()), Changed: c.ModTime, ID: c.ID, Open: c.Open})
	})
}
