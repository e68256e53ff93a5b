package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

// Exec runs one command on the host, outside of any sandbox, if the operator or a person has allowed it. Its answer
// is an [ExecEnd].
type Exec struct {
	Namespace, Session string

	Command   string    // words and quotes; Words if ""
	Words     Words     // unquoted words
	Directory string    // absolute; "" is the first allowed directory
	Stdin     io.Reader // nil is an empty input; see Command.Unseen
	Timeout   time.Duration
	// Ask shows a person the question about a command that is not allowed: see run.Reach. nil refuses instead.
	Ask func(context.Context, *approval.Pending)
}

// ExecEnd is the end of a command on the host, in addition to the Outcome.
type ExecEnd struct {
	Pattern string `json:"pattern,omitempty"` // pattern that allowed it
	Left    int    `json:"left"`              // remaining processes, which were killed
}

// hostRun runs a command.
type hostRun struct {
	*pipeline.Run
	c       Exec
	words   Words
	decided Decision
	dir     string
	policy  *Policy
	out     ExecEnd
}

func (c Exec) Subject() pipeline.Subject { return pipeline.About("host_exec", c.Namespace, c.Session) }

func (c Exec) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[ExecEnd], error) {
	what := cmp.Or(c.Command, c.Words.String())
	wall := cmp.Or(pipeline.PackageSettings[Config](r.Pipeline).Timeout, DefaultHostTimeout)
	if c.Timeout > 0 {
		wall = min(wall, c.Timeout)
	}
	h := &hostRun{Run: r, c: c}
	return pipeline.PlanAction(ctx, r, what, nil, h.check, pipeline.Task[ExecEnd]{Stage: pipeline.StageBackend, Wall: wall, Do: h.runCommand})
}

// check decides, and asks a person if that can change the decision.
func (h *hostRun) check(ctx context.Context) error {
	if !pipeline.PackageSettings[Config](h.Pipeline).Enabled {
		return errHostOff()
	}
	err := h.decide()
	if no, is := errors.AsType[*Refusal](err); is && no.Ask && h.c.Ask != nil && h.Pipeline.Config.Approvals != nil {
		if err := h.askPerson(ctx); err != nil {
			return err
		}
		err = h.decide()
	}
	return h.allow(err)
}

// allow records the decision, or adds a remedy to the refusal.
func (h *hostRun) allow(err error) error {
	if err != nil {
		return hostRefusal(err)
	}
	h.out.Pattern = h.Clean(h.decided.Pattern.String())
	h.Facts["pattern"], h.Facts["allowed_by"] = h.decided.Pattern.String(), h.decided.By
	h.Facts["program"], h.Facts["directory"] = h.decided.Program.Path, h.dir
	return nil
}

func (h *hostRun) decide() (err error) {
	if h.words = h.c.Words; h.c.Command != "" {
		if h.words, err = Parse(h.c.Command); err != nil {
			return err
		}
	}
	approved, roots := approvedHost(h.Pipeline, h.Outcome.Namespace, h.c.Session, h.Outcome.ID)
	h.policy = pipeline.PackageSettings[Config](h.Pipeline).policy().With(roots)
	if h.dir, err = h.policy.Directory(h.c.Directory); err != nil {
		return err
	}
	h.decided, err = h.policy.Decide(Command{Words: h.words, Directory: h.dir, Unseen: h.c.Stdin != nil && h.c.Ask == nil}, approved)
	return err
}

// askPerson asks a person for exactly these words.
func (h *hostRun) askPerson(ctx context.Context) error {
	q := approval.Question{Kind: approval.Host, What: verbRun + Exactly(h.words).String(),
		Namespace: h.Outcome.Namespace, Session: h.c.Session, Run: h.Outcome.ID}
	if err := redactQuestion(h.Leases, &q); err != nil {
		return err
	}
	_, err := h.Pipeline.Config.Approvals.Ask(ctx, q, h.c.Ask)
	return err
}

// runCommand runs the command. Its output is redacted before it is cut. It decides again, because an approval may
// have ended, or a repository may have changed its configuration, while the command waited for its slot.
func (h *hostRun) runCommand(ctx context.Context) (ExecEnd, error) {
	if err := h.allow(h.decide()); err != nil {
		return h.out, err
	}
	cfg, d := pipeline.PackageSettings[Config](h.Pipeline), DefaultHostBounds
	bounds := launch.Bounds{RAM: cmp.Or(cfg.Bounds.RAM, d.RAM), Processes: cmp.Or(cfg.Bounds.Processes, d.Processes),
		CPU: cmp.Or(cfg.Bounds.CPU, d.CPU)}
	keep := cmp.Or(cfg.Output, DefaultHostOutput)
	out := pipeline.NewProgramEnd(keep, nil, nil, false, nil)
	stdout, stderr, closePipes := h.OutputWriters(out)
	end, err := Run{Program: h.decided.Program, Words: h.words, Directory: h.dir, Stdin: h.c.Stdin, Stdout: stdout, Stderr: stderr,
		Env: h.policy.Environment(cfg.Environment, os.LookupEnv), Bounds: bounds, Cage: cfg.Cage}.Exec(ctx)
	_ = closePipes() // writes to memory don't fail
	h.Outcome.Stdout, h.Outcome.StdoutCut = out.Stdout.Contents()
	h.Outcome.Stderr, h.Outcome.StderrCut = out.Stderr.Contents()
	h.Outcome.ExitCode, h.Outcome.Signal, h.Outcome.PeakMemory, h.Outcome.CPUMS = end.Exit, end.Signal, end.Memory,
		pipeline.Milliseconds(end.CPU)
	h.Facts["stdout_bytes"], h.Facts["stderr_bytes"] = int64(len(h.Outcome.Stdout))+h.Outcome.StdoutCut, int64(len(h.Outcome.Stderr))+
		h.Outcome.StderrCut
	if h.out.Left = end.Killed; end.Killed > 0 {
		h.Facts["left"] = end.Killed
		h.Warn(fmt.Sprintf("%d remaining processes of the command were killed", end.Killed))
	}
	h.Facts["bounds"] = end.EnforcedBy
	if end.Forks > 0 && end.Limit == "" && ctx.Err() == nil {
		h.Warn(fmt.Sprintf("the command tried to start %d processes beyond its limit of %d", end.Forks, bounds.Processes))
	}
	switch {
	case end.Limit != "":
		h.Outcome.Ended, h.Outcome.ExitCode, h.Outcome.Limit = backends.EndedLimit, 137, end.Limit
		if end.Limit == "ram" {
			h.Outcome.Ended = backends.EndedOOM
		}
		return h.out, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		h.Outcome.Ended, h.Outcome.ExitCode, h.Outcome.Limit = backends.EndedTimeout, 124, "wall"
		return h.out, nil
	case err != nil:
		return h.out, err
	case end.Signal != "":
		h.Outcome.Ended = backends.EndedSignal
	case end.Exit != 0:
		h.Outcome.Ended = backends.EndedExit
	}
	return h.out, nil
}
