package answer

import (
	"cmp"
	"context"
	"errors"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Refusal is an error of the server, not of the program.
type Refusal struct {
	Reason string `json:"reason" about:"What was refused or failed."`
	Remedy string `json:"remedy,omitempty" about:"What to send, set or type instead."`
	Stage  string `json:"stage,omitempty" about:"The stage that refused: validate, queue, vault, egress, backend or audit."`
	Layer  string `json:"layer,omitempty" about:"The layer of containment concerned."`
	Denied bool   `json:"denied" about:"True if policy or a missing part forbids it, false if something failed."`

	arguments bool // the arguments are invalid
}

// String returns the refusal as text for a model.
func (r Refusal) String() string {
	text := "refused: " + r.Reason
	if !r.Denied {
		text = "error: " + r.Reason
	}
	if r.Remedy != "" {
		text += "\nwhat to do: " + r.Remedy
	}
	return text
}

// Explain returns the refusal for an error, with the remedy in the words of the tool.
func Explain(tool string, err error) Refusal {
	var stopped *pipeline.Error
	var arguments operation.Invalid
	var refused *backends.Refusal
	var withheld *results.Withheld
	switch {
	case errors.As(err, &arguments):
		return Refusal{Reason: arguments.Error(), Remedy: "correct the arguments and call again", Denied: true, arguments: true}
	case errors.As(err, &stopped):
		return explainStopped(tool, stopped)
	case errors.As(err, &refused): // from probes: the pipeline wraps those of runs
		return explainStopped(tool, &pipeline.Error{Stage: pipeline.StageBackend, Layer: refused.Layer, Reason: refused.Reason,
			Remedy: refused.Remedy, Denied: true})
	case errors.Is(err, session.ErrUnknown):
		return Refusal{Reason: err.Error(), Denied: true,
			Remedy: "inspect_state without arguments lists the sessions, create_session starts one"}
	case errors.As(err, &withheld):
		return Refusal{Reason: withheld.Error(), Remedy: run.WithheldRemedy, Denied: true}
	case errors.Is(err, results.ErrUnknown):
		return Refusal{Reason: err.Error(), Denied: true,
			Remedy: "get_artifacts with a run's request_id lists its files; they are deleted after a while"}
	case errors.Is(err, rpc.ErrCancelled), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Refusal{Reason: "the call was cancelled: " + err.Error(), Remedy: "call again"}
	}
	if errors.As(err, new(*audit.Unwritten)) {
		return Refusal{Reason: audit.UnwrittenText, Stage: pipeline.StageAudit, Remedy: "try again later"}
	}
	if errors.As(err, new(*audit.Fault)) {
		return Refusal{Reason: audit.FaultText, Stage: pipeline.StageAudit, Remedy: pipeline.SeeServerLog}
	}
	reason, do := remedy.Split(err)
	return Refusal{Reason: pipeline.HideDisk(reason, err),
		Remedy: cmp.Or(do.In(WordsOf(tool)), "try again; if it persists, tell the operator of sandboxmcp")}
}

// explainStopped returns the refusal for a request that the pipeline refused or failed to run.
func explainStopped(tool string, e *pipeline.Error) Refusal {
	do := map[string]string{
		pipeline.StageValidate: "correct the code or the arguments and call again",
		pipeline.StageVault:    "use names of secrets that the operator has added to the vault for this namespace",
		pipeline.StageQueue:    "try again later",
	}[e.Stage]
	return Refusal{Reason: pipeline.HideDisk(e.Reason, e), Stage: e.Stage, Layer: e.Layer, Denied: e.Denied,
		Remedy: cmp.Or(e.Remedy.In(WordsOf(tool)), do, "a person must fix it: sandboxmcp doctor lists what the host lacks")}
}
