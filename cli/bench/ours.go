package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The ways that have a row of their own.
const (
	Bare       = "bare"
	Bubblewrap = "bubblewrap"
	Warm       = "execute_code"
	PoolOff    = "execute_code, pool off"
	Session    = "execute_code, session"
	Cold       = "cold sandbox"
	FromBash   = "sandboxmcp run"
	Served     = "sandboxmcp run, served"
	Version    = "sandboxmcp version"
)

// settings are all that is not as by default. They are the same for servers and for run, which has its server only do what it would
// have done itself.
const settings = "containers: {pull: never}\nstructured: true\n"

// Ours reports whether a way is one of our own.
func Ours(variant string) bool {
	return variant == Cold || strings.HasPrefix(variant, Warm) || strings.HasPrefix(variant, FromBash)
}

// ours measures sandboxes of ours: through a server as it is, through one that keeps nothing ready, in a session, without a
// server, and from the command line.
func (b *bench) ours(ctx context.Context) {
	b.say(ctx, "starting servers")
	err := os.WriteFile(b.settings(), []byte(settings), 0o600)
	warm, e := b.serve(ctx, "warm")
	if err = cmp.Or(err, e); err != nil {
		b.leaveOut(Warm, err)
		return
	}
	b.warm = warm
	poolOff, err := b.serve(ctx, "pool-off", "SANDBOXMCP_POOL=off")
	if err != nil {
		b.leaveOut(PoolOff, err)
		return
	}
	if _, err = b.serve(ctx, "served"); err != nil { // of its own: what it has ready is for other kinds of programs
		b.leaveOut(Served, err)
		return
	}
	cold := newCold(filepath.Join(b.dir, "cold"))
	b.closers = append(b.closers, cold.close)
	own, inOwn := b.ownProcess(ctx)
	for _, p := range b.programs {
		b.variants = append(b.variants,
			&Variant{Language: p.Language, Name: Warm, What: p.Code, Loaded: true, pooled: true, Once: warm.program(p)},
			&Variant{Language: p.Language, Name: PoolOff, What: p.Code, Once: poolOff.program(p)},
			warm.session(ctx, p),
			&Variant{Language: p.Language, Name: Cold, What: p.What + ", nothing made ahead, without server and log", Once: cold.program(p)},
			&Variant{Language: p.Language, Name: FromBash, What: inOwn + " " + p.file, Once: b.run("alone", append(own, p.Script)...)},
			&Variant{Language: p.Language, Name: Served, What: FromBash + " " + p.file + ", while a server runs", Once: b.run("served", p.Script)},
		)
	}
}

// ownProcess returns the flags with which run asks no server that is there already, and how people type it.
func (b *bench) ownProcess(ctx context.Context) (flags []string, typed string) {
	const here = "--here"
	help, err := Output(ctx, b.environ("alone"), b.Program, "run", "--help")
	if err != nil || !strings.Contains(help, here) {
		return nil, FromBash
	}
	return []string{here}, FromBash + " " + here
}

// run returns what a way does that is our command, with the state of that name.
func (b *bench) run(state string, args ...string) func(context.Context) (Answer, error) {
	return Runs(b.environ(state), append([]string{b.Program, "--config", b.settings(), "run"}, args...)...)
}

// contained measures our own runs in containers of the same images.
func (b *bench) contained(images []Image) {
	for _, i := range images {
		environ := append(b.environ("alone"), "SANDBOXMCP_IMAGE_"+strings.ToUpper(i.Program.Language)+"="+i.Name)
		for _, kv := range b.Environ {
			if strings.HasPrefix(kv, "XDG_RUNTIME_DIR=") { // where an ordinary user's engines listen
				environ = append(environ, kv)
			}
		}
		b.variants = append(b.variants, &Variant{
			Language: i.Program.Language, Name: within(i.Engine), What: FromBash + " --backend " + i.Engine + " " + i.Program.file, Seldom: true,
			Once: Runs(environ, b.Program, "--config", b.settings(), "run", "--backend", i.Engine, i.Program.Script),
		})
	}
}

// within is the name of our own way in an engine's containers.
func within(engine string) string { return FromBash + ", " + engine }

// executed is what is read of an answer of execute_code.
type executed struct {
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Ended   string `json:"ended"`
	Warm    bool   `json:"warm"`
	Cold    string `json:"cold"`
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
func (s *server) program(p *Program) func(context.Context) (Answer, error) {
	return s.execute(map[string]any{"language": p.Language, "code": p.Code})
}

// session returns a way to run a cell in a session that is there already.
func (s *server) session(ctx context.Context, p *Program) *Variant {
	var made struct {
		ID string `json:"session_id"`
	}
	err := s.call(ctx, "create_session", map[string]any{"language": p.Language}, &made)
	return &Variant{Language: p.Language, Name: Session, What: p.cell, silent: true, Broken: err, Once: s.execute(map[string]any{"session_id": made.ID, "code": p.cell})}
}

func (s *server) execute(arguments map[string]any) func(context.Context) (Answer, error) {
	return func(ctx context.Context) (Answer, error) {
		var e executed
		err := s.call(ctx, "execute_code", arguments, &e)
		if errors.Is(err, errEnded) {
			err = s.lastWords(err)
		}
		return Answer{Out: e.Stdout, ready: e.Warm, cold: e.Cold}, cmp.Or(err, e.err())
	}
}
