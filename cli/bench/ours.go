package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The ways of our own.
const (
	Bare     = "bare"
	Warm     = "execute_code"
	Cold     = "execute_code, pool off"
	Session  = "execute_code, session"
	FromBash = "sandboxmcp run"
)

// ours measures sandboxes of ours: through a server as it is, through one that keeps nothing ready, in a session, and
// from the command line.
func (b *bench) ours(ctx context.Context, found []*program, script map[string]string) {
	b.say(ctx, "starting servers")
	err := os.WriteFile(filepath.Join(b.dir, "default.yaml"), nil, 0o600)
	warm, e := b.serve(ctx, "warm")
	if err = cmp.Or(err, e); err != nil {
		b.leaveOut("execute_code", err)
		return
	}
	cold, err := b.serve(ctx, "cold", "SANDBOXMCP_POOL=off")
	if err != nil {
		b.leaveOut("execute_code", err)
		return
	}
	for _, p := range found {
		session, err := warm.session(ctx, p)
		if err != nil {
			session = &way{broken: err}
		}
		session.language, session.name, session.what, session.silent = p.language, Session, p.cell, true
		b.ways = append(b.ways,
			&way{language: p.language, name: Warm, what: p.code, loaded: true, spaced: true, once: warm.program(p)},
			&way{language: p.language, name: Cold, what: p.code, once: cold.program(p)},
			session,
			&way{language: p.language, name: FromBash, what: "sandboxmcp run main" + p.suffix,
				once: runs(b.environ("run"), append([]string{b.Program}, b.global("run", script[p.language])...)...)})
	}
}

// executed is what is read of an answer of execute_code.
type executed struct {
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Ended   string `json:"ended"`
	Refused *struct {
		Reason string `json:"reason"`
	} `json:"refused"`
}

func (e *executed) err() error {
	switch {
	case e.Refused != nil:
		return errors.New(e.Refused.Reason)
	case e.Ended != "ok":
		return fmt.Errorf("it ended with %s: %s", e.Ended, lastLine(e.Stderr))
	}
	return nil
}

// program returns what a way does that has a server run a program once.
func (s *server) program(p *program) func(context.Context) (string, error) {
	return s.execute(map[string]any{"language": p.language, "code": p.code})
}

// session returns a way to run a cell in a session that is there already.
func (s *server) session(ctx context.Context, p *program) (*way, error) {
	var made struct {
		ID string `json:"session_id"`
	}
	if err := s.call(ctx, "create_session", map[string]any{"language": p.language}, &made); err != nil {
		return nil, err
	}
	return &way{once: s.execute(map[string]any{"session_id": made.ID, "code": p.cell})}, nil
}

func (s *server) execute(arguments map[string]any) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var e executed
		err := s.call(ctx, "execute_code", arguments, &e)
		if errors.Is(err, errEnded) {
			err = fmt.Errorf("%w: %s", err, s.said.last())
		}
		return e.Stdout, cmp.Or(err, e.err())
	}
}
