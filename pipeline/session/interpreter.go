package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Errors that a caller may match.
var (
	ErrNoContext = errors.New("the session has no such context")
	ErrNoAgent   = errors.New("the session's sandbox does not show the sandboxmcp agent, so its files can't be accessed")
	ErrBare      = errors.New("the session has no interpreter of its own: create a context in it")
	ErrContexts  = errors.New("context limit of the session reached")
)

// maxContexts bounds the additional interpreters of a session.
const maxContexts = 32

// interpreter is one interpreter of a session. The session's mutex guards its fields except sem.
type interpreter struct {
	Context // the first has no ID
	env     []string

	sem    chan struct{} // has a value while it is unlocked
	gone   chan struct{} // closed when it is removed; nil for the first
	kernel *kernel.Kernel
	lost   string // why its state was lost, until TakeLossReason
}

// Context describes an additional interpreter of a session: it has its own variables, and shares the files.
type Context struct {
	ID       string    `json:"id"`
	Language string    `json:"language"`
	Dir      string    `json:"cwd"` // its working directory; "" is the home directory
	Created  time.Time `json:"created"`
}

// NewContext starts another interpreter. env is added to the session's environment.
func (s *Session) NewContext(ctx context.Context, c Context, env []string) (Context, error) {
	c.Created = s.manager.now()
	in := &interpreter{Context: c, env: env, sem: make(chan struct{}, 1), gone: make(chan struct{})}
	done, err := s.Use()
	if err != nil {
		return c, err
	}
	defer done()
	s.mu.Lock()
	_, taken := s.more[c.ID]
	full := len(s.more) >= maxContexts
	if !taken && !full {
		s.more[c.ID] = in
	}
	s.mu.Unlock()
	switch {
	case taken:
		return c, fmt.Errorf("context %q already exists in the session", c.ID)
	case full:
		return c, fmt.Errorf("%w: %d", ErrContexts, maxContexts)
	}
	if err := s.startBeside(ctx, in); err != nil {
		s.drop(in)
		return c, err
	}
	in.sem <- struct{}{}
	return c, nil
}

// startMain starts the kernel of the first interpreter.
func (s *Session) startMain(ctx context.Context, sandbox backends.Sandbox) (*kernel.Kernel, error) {
	return s.startKernel(ctx, sandbox, s.info.Language, backends.Command{Env: s.plan.Env, Main: true})
}

// startKernel starts a kernel. A kernel of the operator must be ready within the time limit of a cell.
func (s *Session) startKernel(ctx context.Context, sandbox backends.Sandbox, language string, as backends.Command) (*kernel.Kernel, error) {
	own, is := s.manager.cfg.Kernels[language]
	if !is {
		return kernel.Start(ctx, sandbox, language, as)
	}
	wall := s.Info().Limits.Wall
	within, cancel := context.WithTimeoutCause(ctx, time.Duration(wall*float64(time.Second)),
		fmt.Errorf("it was not ready after %g seconds, the time limit of a cell", wall))
	defer cancel()
	k, err := kernel.StartCustom(within, sandbox, own, as)
	if err != nil && ctx.Err() == nil {
		return nil, backends.Refuse(err.Error(), "correct ", remedy.Setting.With("runtimes."+language+".kernel"))
	}
	return k, err
}

// startBeside starts the kernel of an additional interpreter.
func (s *Session) startBeside(ctx context.Context, in *interpreter) error {
	k, err := s.startKernel(ctx, s.Sandbox(), in.Language, backends.Command{Dir: in.Dir, Env: slices.Concat(s.plan.Env, in.env),
		Endless: true})
	if err != nil {
		if over := s.EndedError(); over != nil {
			return over
		}
		return fmt.Errorf("start the interpreter: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.State == "dead" || s.more[in.ID] != in { // closeAll or drop has missed this kernel
		go k.Close()
		return fmt.Errorf("%w: %.40q", ErrNoContext, in.ID)
	}
	in.kernel = k
	return nil
}

// Contexts lists the additional interpreters, the oldest first.
func (s *Session) Contexts() []Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Context{}
	older := func(a, b *interpreter) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) }
	for _, in := range slices.SortedFunc(maps.Values(s.more), older) {
		list = append(list, in.Context)
	}
	return list
}

// context returns an additional interpreter.
func (s *Session) context(id string) (*interpreter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.more[id]; in != nil {
		return in, nil
	}
	return nil, fmt.Errorf("%w: %.40q", ErrNoContext, id)
}

// ContextLanguage returns the language of a context; "" is the first interpreter.
func (s *Session) ContextLanguage(id string) (string, error) {
	if id == "" && s.Language != "" {
		return s.Language, nil
	}
	if id == "" {
		return "", ErrBare
	}
	in, err := s.context(id)
	if err != nil {
		return "", err
	}
	return in.Language, nil
}

// AcquireContext is Acquire for any interpreter; "" is the first.
func (s *Session) AcquireContext(ctx context.Context, id string) (*Guard, error) {
	if id == "" {
		return s.Acquire(ctx)
	}
	in, err := s.context(id)
	if err != nil {
		return nil, err
	}
	return s.acquire(ctx, in, func() {})
}

// EndContext ends an additional interpreter, even while it is busy.
func (s *Session) EndContext(id string) error {
	in, err := s.context(id)
	if err != nil {
		return err
	}
	if s.drop(in) {
		s.stop(in)
	}
	return nil
}

// drop removes an interpreter from the session. It returns false if the interpreter is removed already.
func (s *Session) drop(in *interpreter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more[in.ID] != in {
		return false
	}
	delete(s.more, in.ID)
	close(in.gone)
	return true
}

// stop ends the kernel of an interpreter.
func (s *Session) stop(in *interpreter) {
	s.mu.Lock()
	k := in.kernel
	s.mu.Unlock()
	if k != nil {
		k.Close()
	}
}

// RestartContext replaces an interpreter by a new one without the variables of the old one.
func (s *Session) RestartContext(ctx context.Context, id string) error {
	in, err := s.context(id)
	if err != nil {
		return err
	}
	s.stop(in)
	guard, err := s.acquire(ctx, in, func() {}) // starts the new kernel
	if err != nil {
		return err
	}
	guard.TakeLossReason() // the loss was requested, so no cell reports it
	guard.Release()
	return nil
}
