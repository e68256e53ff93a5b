package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

// HostCommand runs one command on the host, outside of any sandbox, if the operator or a person has allowed it. It comes to
// its [HostEnd].
type HostCommand struct {
	Namespace, Session string

	Command   string     // as words and quotes; or Words, if it is ""
	Words     host.Words // as they are
	Directory string     // absolute; "" is the first directory that is allowed
	Stdin     io.Reader  // nil is an empty input; see host.Command.Unseen
	Timeout   time.Duration
	// Ask is called when a person is asked for a command that is not allowed: see Request. nil refuses instead.
	Ask func(context.Context, *approval.Pending)
}

// HostEnd is what a command on the host ended with, beside what all results have.
type HostEnd struct {
	Pattern string `json:"pattern,omitempty"` // that allowed it
	Left    int    `json:"left"`              // processes that it had left, and that were killed
}

// hostRun is a command on its way.
type hostRun struct {
	*run
	c       HostCommand
	words   host.Words
	decided host.Decision
	dir     string
	policy  *host.Policy
	out     HostEnd
}

func (c HostCommand) subject() subject { return about("host_exec", c.Namespace, c.Session) }

func (c HostCommand) plan(ctx context.Context, r *run) (action[HostEnd], error) {
	what := cmp.Or(c.Command, c.Words.String())
	wall := cmp.Or(r.p.cfg.Host.Timeout, DefaultHostTimeout)
	if c.Timeout > 0 {
		wall = min(wall, c.Timeout)
	}
	h := &hostRun{run: r, c: c}
	return planAction(ctx, r, what, nil, h.check, task[HostEnd]{stage: StageBackend, wall: wall, do: h.do})
}

// check decides, and asks a person where that can change the decision.
func (h *hostRun) check(ctx context.Context) error {
	if !h.p.cfg.Host.Enabled {
		return errHostOff()
	}
	err := h.decide()
	if no, is := errors.AsType[*host.Refusal](err); is && no.Ask && h.c.Ask != nil && h.p.cfg.Approvals != nil {
		if err := h.ask(ctx); err != nil {
			return err
		}
		err = h.decide()
	}
	return h.allow(err)
}

// allow puts down what was decided, or says what the refusal means to the caller.
func (h *hostRun) allow(err error) error {
	if err != nil {
		return hostRefusal(err)
	}
	h.out.Pattern = h.clean(h.decided.Pattern.String())
	h.facts["pattern"], h.facts["allowed_by"] = h.decided.Pattern.String(), h.decided.By
	h.facts["program"], h.facts["directory"] = h.decided.Program.Path, h.dir
	return nil
}

func (h *hostRun) decide() (err error) {
	if h.words = h.c.Words; h.c.Command != "" {
		if h.words, err = host.Parse(h.c.Command); err != nil {
			return err
		}
	}
	approved, roots := h.p.approvedHost(h.res.Namespace, h.c.Session, h.res.ID)
	h.policy = h.p.cfg.Host.policy().With(roots)
	if h.dir, err = h.policy.Directory(h.c.Directory); err != nil {
		return err
	}
	h.decided, err = h.policy.Decide(host.Command{Words: h.words, Directory: h.dir, Unseen: h.c.Stdin != nil && h.c.Ask == nil}, approved)
	return err
}

// ask asks for exactly these words.
func (h *hostRun) ask(ctx context.Context) error {
	q := approval.Question{Kind: approval.Host, What: verbRun + host.Exactly(h.words).String(),
		Namespace: h.res.Namespace, Session: h.c.Session, Run: h.res.ID}
	if err := redactQuestion(h.leases, &q); err != nil {
		return err
	}
	_, err := h.p.cfg.Approvals.Ask(ctx, q, h.c.Ask)
	return err
}

// do is the effect. What the command writes is cleaned before it is cut. It is decided once more: while it waited for
// its turn, an approval may have ended, and a repository may have got another configuration.
func (h *hostRun) do(ctx context.Context) (HostEnd, error) {
	if err := h.allow(h.decide()); err != nil {
		return h.out, err
	}
	cfg, d := h.p.cfg.Host, DefaultHostBounds
	bounds := launch.Bounds{RAM: cmp.Or(cfg.Bounds.RAM, d.RAM), Processes: cmp.Or(cfg.Bounds.Processes, d.Processes), CPU: cmp.Or(cfg.Bounds.CPU, d.CPU)}
	keep := cmp.Or(cfg.Output, DefaultHostOutput)
	out := newOutcome(keep, nil, nil, false, nil)
	stdout, stderr, closePipes := h.pipes(out)
	end, err := host.Run{Program: h.decided.Program, Words: h.words, Directory: h.dir, Stdin: h.c.Stdin, Stdout: stdout, Stderr: stderr,
		Env: h.policy.Environment(cfg.Environment, os.LookupEnv), Bounds: bounds, Cage: cfg.Cage}.Do(ctx)
	_ = closePipes() // they write to memory
	h.res.Stdout, h.res.StdoutCut = out.stdout.contents()
	h.res.Stderr, h.res.StderrCut = out.stderr.contents()
	h.res.ExitCode, h.res.Signal, h.res.PeakMemory, h.res.CPUMS = end.Exit, end.Signal, end.Memory, milliseconds(end.CPU)
	h.facts["stdout_bytes"], h.facts["stderr_bytes"] = int64(len(h.res.Stdout))+h.res.StdoutCut, int64(len(h.res.Stderr))+h.res.StderrCut
	if h.out.Left = end.Killed; end.Killed > 0 {
		h.facts["left"] = end.Killed
		h.warn(fmt.Sprintf("%d processes that the command had left were killed", end.Killed))
	}
	h.facts["bounds"] = end.EnforcedBy
	if end.Forks > 0 && end.Limit == "" && ctx.Err() == nil {
		h.warn(fmt.Sprintf("the command was refused %d more processes than the %d that it may have", end.Forks, bounds.Processes))
	}
	switch {
	case end.Limit != "":
		h.res.Ended, h.res.ExitCode, h.res.Limit = backends.EndedLimit, 137, end.Limit
		if end.Limit == "ram" {
			h.res.Ended = backends.EndedOOM
		}
		return h.out, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		h.res.Ended, h.res.ExitCode, h.res.Limit = backends.EndedTimeout, 124, "wall"
		return h.out, nil
	case err != nil:
		return h.out, err
	case end.Signal != "":
		h.res.Ended = backends.EndedSignal
	case end.Exit != 0:
		h.res.Ended = backends.EndedExit
	}
	return h.out, nil
}
