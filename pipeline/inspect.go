package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// maxFiles is how many files of a session Inspect lists.
const maxFiles = 1000

// inspectTimeout is how long Inspect waits for a cell that is running before it goes without the variables.
const inspectTimeout = 500 * time.Millisecond

// Inspect returns what is inside a session, without its secrets.
func (p *Pipeline) Inspect(ctx context.Context, namespace, id string) (session.State, error) {
	s, err := p.own(namespace, id)
	if err != nil {
		return session.State{}, err
	}
	state := session.State{Env: s.Env(), Files: []session.File{}}
	state.Usage = usageOf(s.Sandbox().Usage())
	more := 0
	_, err = s.Sandbox().Files().Each(ctx, func(f backends.File) error {
		if len(state.Files) == maxFiles {
			more++
			return nil
		}
		state.Files = append(state.Files, session.File{Name: s.Redact(f.Name), Size: f.Size, Changed: f.Changed})
		return nil
	})
	if err != nil {
		state.Note = "the files can't be listed: " + s.Redact(err.Error())
	} else if more > 0 {
		state.Note = fmt.Sprintf("%d more files are not listed", more)
	}
	p.variables(ctx, s, &state)
	state.Info = s.Info()
	return state, nil
}

// variables adds a session's variables to its state, or a note that says why they are missing.
func (p *Pipeline) variables(ctx context.Context, s *session.Session, state *session.State) {
	soon, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	guard, err := s.Acquire(soon)
	if err != nil {
		state.Note = "the variables can't be listed while a cell runs"
		return
	}
	defer guard.Release()
	list, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	vars, err := guard.Kernel().Variables(list)
	if err != nil {
		state.Note = "the variables can't be listed: " + s.Redact(err.Error())
	}
	redactor := p.newRedactor(s.Leases())
	for _, v := range vars {
		for _, text := range []*string{&v.Name, &v.Type, &v.Text, &v.Unit} {
			*text = redactor.cleanBrief(*text)
		}
		state.Variables = append(state.Variables, v)
	}
}
