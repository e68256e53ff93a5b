package session

import (
	"context"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// maxFiles bounds the files of a session that Inspect lists.
const maxFiles = 1000

// inspectTimeout bounds the wait for a running cell; after that, Inspect omits the variables.
const inspectTimeout = 500 * time.Millisecond

// Inspect returns the state of a session, without its secrets.
func Inspect(ctx context.Context, p *pipeline.Pipeline, namespace, id string) (State, error) {
	s, err := FindSession(p, namespace, id)
	if err != nil {
		return State{}, err
	}
	state := State{Env: s.Env(), Files: []File{}}
	state.Usage = pipeline.UsageOf(s.Sandbox().Usage())
	more := 0
	_, err = s.EachFile(ctx, func(f backends.File) error {
		if len(state.Files) == maxFiles {
			more++
			return nil
		}
		state.Files = append(state.Files, File{Name: s.Redact(f.Name), Size: f.Size, Changed: f.Changed})
		return nil
	})
	if err != nil {
		state.Note = "the files can't be listed: " + s.Redact(err.Error())
	} else if more > 0 {
		state.Note = fmt.Sprintf("%d more files are not listed", more)
	}
	variables(ctx, p, s, &state)
	state.Info = s.Info()
	return state, nil
}

// variables adds a session's variables to its state, or a note about why they are missing.
func variables(ctx context.Context, p *pipeline.Pipeline, s *Session, state *State) {
	soon, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	guard, err := s.Acquire(soon)
	if err != nil {
		state.Note = "the variables can't be listed while a cell runs"
		return
	}
	defer guard.Release()
	list, cancel := context.WithTimeout(ctx, pipeline.FinishTimeout)
	defer cancel()
	vars, err := guard.Kernel().Variables(list)
	if err != nil {
		state.Note = "the variables can't be listed: " + s.Redact(err.Error())
	}
	redactor := p.NewRedactor(s.Leases())
	for _, v := range vars {
		for _, text := range []*string{&v.Name, &v.Type, &v.Text, &v.Unit} {
			*text = redactor.CleanBrief(*text)
		}
		state.Variables = append(state.Variables, v)
	}
}

// UsageOf returns the current resource use of a living session of a namespace. It does not wait for a running cell.
func UsageOf(p *pipeline.Pipeline, namespace, id string) (pipeline.CurrentUsage, error) {
	s, err := FindSession(p, namespace, id)
	if err != nil {
		return pipeline.CurrentUsage{}, err
	}
	return pipeline.UsageOf(s.Sandbox().Usage()), nil
}
