package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

// HostCommand asks for a command on the host.
type HostCommand struct {
	Namespace, Session string

	Command   string     // as words and quotes; or Words, if it is ""
	Words     host.Words // as they are
	Directory string     // absolute; "" is the first directory that is allowed
	Stdin     io.Reader  // nil is an empty input
	Timeout   time.Duration
	// Ask is called when a person is asked for a command that is not allowed: see Request. nil refuses instead.
	Ask func(context.Context, *approval.Pending)
}

// HostResult is the result of a command on the host.
type HostResult struct {
	Result
	Pattern string // that allowed it
	Left    int    // processes that it had left, and that were killed
}

// MarshalJSON writes what all results have, and behind it what this one has.
func (h HostResult) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(h.Result)
	if err != nil {
		return nil, err
	}
	own, err := json.Marshal(struct {
		Pattern string `json:"pattern,omitempty"`
		Left    int    `json:"left"`
	}{h.Pattern, h.Left})
	return slices.Concat(b[:len(b)-1], []byte(","), own[1:]), err
}

// hostRun is a command on its way.
type hostRun struct {
	p       *Pipeline
	c       HostCommand
	words   host.Words
	decided host.Decision
	dir     string
	policy  *host.Policy
	out     HostResult
}

// HostExec runs one command on the host, outside of any sandbox, if the operator or a person has allowed it.
func (p *Pipeline) HostExec(ctx context.Context, c HostCommand) (HostResult, error) {
	h := &hostRun{p: p, c: c}
	what := c.Command
	if what == "" {
		what = c.Words.String()
	}
	cfg := p.cfg.Host
	wall := cmp.Or(cfg.Timeout, DefaultHostTimeout)
	if c.Timeout > 0 {
		wall = min(wall, c.Timeout)
	}
	var err error
	h.out.Result, err = p.runAction(ctx, action{Namespace: c.Namespace, Session: c.Session, Tool: "host_exec", What: what, Stage: StageBackend, Wall: wall,
		Check: h.check, Do: h.run})
	return h.out, err
}

// check decides, and asks a person where that can change the decision.
func (h *hostRun) check(ctx context.Context, r *run) error {
	if !h.p.cfg.Host.Enabled {
		return errHostOff()
	}
	err := h.decide(r)
	var no *host.Refusal
	if errors.As(err, &no) && no.Ask && h.c.Ask != nil && h.p.cfg.Approvals != nil {
		if err := h.ask(ctx, r); err != nil {
			return err
		}
		err = h.decide(r)
	}
	return h.note(r, err)
}

// note puts down what was decided, or says what the refusal means to the caller.
func (h *hostRun) note(r *run, err error) error {
	if err != nil {
		return hostRefusal(err)
	}
	h.out.Pattern = r.clean(h.decided.Pattern.String())
	r.facts["pattern"], r.facts["allowed_by"] = h.decided.Pattern.String(), h.decided.By
	r.facts["program"], r.facts["directory"] = h.decided.Program.Path, h.dir
	return nil
}

func (h *hostRun) decide(r *run) (err error) {
	if h.words = h.c.Words; h.c.Command != "" {
		if h.words, err = host.Parse(h.c.Command); err != nil {
			return err
		}
	}
	var approved []host.Pattern
	approved, h.policy = h.p.approvedHost(r.res.Namespace, h.c.Session, r.res.ID)
	if h.dir, err = h.policy.Directory(h.c.Directory); err != nil {
		return err
	}
	h.decided, err = h.policy.Decide(host.Command{Words: h.words, Directory: h.dir}, approved)
	return err
}

// ask asks for exactly these words.
func (h *hostRun) ask(ctx context.Context, r *run) error {
	q := approval.Question{Kind: approval.Host, What: verbRun + host.Exactly(h.words).String(),
		Namespace: r.res.Namespace, Session: h.c.Session, Run: r.res.ID}
	if err := redactQuestion(r.leases, &q); err != nil {
		return err
	}
	_, err := h.p.cfg.Approvals.Ask(ctx, q, h.c.Ask)
	return err
}

// run is the effect. What the command writes is cleaned before it is cut. It is decided once more: while it waited for
// its turn, an approval may have ended, and a repository may have got another configuration.
func (h *hostRun) run(ctx context.Context, r *run) error {
	if err := h.note(r, h.decide(r)); err != nil {
		return err
	}
	cfg := h.p.cfg.Host
	keep := cmp.Or(cfg.Output, DefaultHostOutput)
	streams := [2]*stream{newStream(keep, nil, false), newStream(keep, nil, false)}
	known := [2]io.WriteCloser{r.unknown.writer(streams[0]), r.unknown.writer(streams[1])}
	clean := [2]io.WriteCloser{r.leases.Writer(known[0]), r.leases.Writer(known[1])}
	end, err := host.Run{Program: h.decided.Program, Words: h.words, Directory: h.dir, Stdin: h.c.Stdin, Stdout: clean[0], Stderr: clean[1],
		Env: h.policy.Environment(cfg.Environment, os.LookupEnv), Bounds: cfg.bounds(), Cage: cfg.Cage}.Do(ctx)
	for i := range streams {
		clean[i].Close()
		known[i].Close()
		streams[i].Close()
	}
	r.res.Stdout, r.res.StdoutCut = streams[0].contents()
	r.res.Stderr, r.res.StderrCut = streams[1].contents()
	r.res.ExitCode, r.res.Signal, r.res.PeakMemory, r.res.CPUMS = end.Exit, end.Signal, end.Memory, milliseconds(end.CPU)
	r.facts["stdout_bytes"], r.facts["stderr_bytes"] = int64(len(r.res.Stdout))+r.res.StdoutCut, int64(len(r.res.Stderr))+r.res.StderrCut
	if h.out.Left = end.Killed; end.Killed > 0 {
		r.facts["left"] = end.Killed
		r.warn(fmt.Sprintf("%d processes that the command had left were killed", end.Killed))
	}
	r.facts["bounds"] = end.EnforcedBy
	if end.Forks > 0 && end.Limit == "" && ctx.Err() == nil {
		r.warn(fmt.Sprintf("the command was refused %d more processes: host.processes says how many it may have", end.Forks))
	}
	switch {
	case end.Limit != "":
		r.res.Ended, r.res.ExitCode, r.res.Limit = backends.EndedLimit, 137, end.Limit
		if end.Limit == "ram" {
			r.res.Ended = backends.EndedOOM
		}
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.res.Ended, r.res.ExitCode, r.res.Limit = backends.EndedTimeout, 124, "wall"
		return nil
	case err != nil:
		return err
	case end.Signal != "":
		r.res.Ended = backends.EndedSignal
	case end.Exit != 0:
		r.res.Ended = backends.EndedExit
	}
	return nil
}
