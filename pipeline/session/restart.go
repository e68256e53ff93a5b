package session

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
)

// ready starts a new interpreter if the previous one is dead.
func (c *Guard) ready(ctx context.Context) error {
	s := c.Session
	select {
	case <-s.dead: // the session ended while we waited
		return s.endedError()
	default:
	}
	c.reap()
	select {
	case <-c.in.gone: // or the interpreter was removed
		return fmt.Errorf("%w: %.40q", ErrNoContext, c.in.ID)
	default:
	}
	if c.Kernel() == nil && c.in != &s.interpreter {
		return s.startBeside(ctx, c.in)
	}
	if c.Kernel() == nil {
		return s.restart(ctx)
	}
	return nil
}

// reap drops the interpreter if it is dead.
func (c *Guard) reap() {
	k := c.Kernel()
	if k == nil {
		return
	}
	select {
	case <-k.Done():
		c.recordLoss(c.in, k)
	default:
	}
}

// recordLoss records why an interpreter died. A cell that was running then reports it itself.
func (s *Session) recordLoss(in *interpreter, k *kernel.Kernel) {
	why := s.Redact(Death(k)) // the reason may quote output of the program
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.kernel != k {
		return
	}
	in.kernel, in.lost = nil, why
	s.info.Restarts = append(s.info.Restarts, Restart{s.manager.now(), why})
	s.info.Restarts = s.info.Restarts[max(0, len(s.info.Restarts)-maxRestarts):]
}

// maxRestarts bounds the restarts that a session's Info lists.
const maxRestarts = 20

// Death describes how an interpreter ended.
func Death(k *kernel.Kernel) string {
	r, err := k.Death()
	switch {
	case err != nil:
		return err.Error()
	case r.Ended == backends.EndedOOM:
		return "it ran out of memory"
	case r.Ended == backends.EndedLimit:
		return "it reached the limit " + r.Limit
	case r.Ended == backends.EndedSignal:
		return "it was killed by " + r.Signal
	case r.Ended == backends.EndedExit || r.Ended == backends.EndedOK:
		return fmt.Sprintf("it exited with code %d", r.ExitCode)
	}
	return "it had to be killed"
}

// restart starts a new interpreter, in a new sandbox if the old one died with its interpreter: some kernels kill all
// processes of a cgroup that runs out of memory.
func (s *Session) restart(ctx context.Context) error {
	k, err := s.startMain(ctx, s.Sandbox())
	if err != nil && ctx.Err() == nil && s.EndedError() == nil {
		k, err = s.rebuild(ctx)
	}
	if err != nil && s.EndedError() != nil {
		return s.EndedError() // its sandbox was closed meanwhile
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		go s.manager.endSession(s, "failed") // it waits for the lock that we hold
		return fmt.Errorf("start the session's interpreter again: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kernel, s.cells = k, map[string]string{}
	return nil
}

func (s *Session) rebuild(ctx context.Context) (*kernel.Kernel, error) {
	sandbox, err := s.build(ctx)
	if err != nil {
		return nil, err
	}
	k, err := s.startMain(ctx, sandbox)
	if err != nil {
		sandbox.Close()
		return nil, err
	}
	if !s.replace(sandbox) {
		sandbox.Close()
		k.Close()
		return nil, s.endedError()
	}
	return k, nil
}

// replace switches the session to another sandbox, and closes the old one with its agent. It does nothing if the
// session has ended, because closeAll has closed the old sandbox only.
func (s *Session) replace(sandbox backends.Sandbox) bool {
	s.guests.mu.Lock() // from now on, Guest starts its agent in the new sandbox
	s.mu.Lock()
	old, agent, dead := s.sandbox, s.guests.last, s.info.State == "dead"
	if !dead {
		s.sandbox, s.seen, s.guests.last = sandbox, map[FileID]SeenFile{}, nil
		s.lost += ", and its sandbox with it, so its files are lost too"
	}
	s.mu.Unlock()
	s.guests.mu.Unlock()
	if dead {
		return false
	}
	old.Close()
	agent.close()
	return true
}
