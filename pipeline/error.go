package pipeline

import (
	"context"
	"errors"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Stages of a run, as Error.Stage names them.
const (
	StageValidate = "validate"
	StageQueue    = "queue"
	StageVault    = "vault"
	StageEgress   = "egress"
	StageBackend  = "backend"
	StageAudit    = "audit"
)

// Remedy is what a caller can do.
type Remedy = remedy.Text

// Error is the reason why a request has no outcome: no program ran, or what it did must not be disclosed. Programs that
// fail are results, not errors.
type Error struct {
	Stage  string `json:"stage"`
	Layer  string `json:"layer,omitempty"` // the layer of containment that it is about
	Reason string `json:"reason"`
	Remedy Remedy `json:"remedy,omitzero"` // what to type or set
	// Denied is set where policy or a missing piece forbids the run; otherwise something broke.
	Denied bool `json:"denied"`

	public string // the reason without any of the code, for the audit log; "" is Reason
	err    error
}

func (e *Error) Error() string {
	if e.Remedy.IsZero() {
		return e.Reason
	}
	return e.Reason + " (" + e.Remedy.String() + ")"
}

// Unwrap returns the error below, such as ErrBusy, context.Canceled or a *backends.Refusal.
func (e *Error) Unwrap() error { return e.err }

// refuse returns the error for a run that policy forbids.
func refuse(stage, reason string, do ...any) *Error {
	return &Error{Stage: stage, Reason: reason, Remedy: do, Denied: true}
}

// refuseFor is refuse for an error, which is below its own.
func refuseFor(err error, stage string, do ...any) *Error {
	e := refuse(stage, err.Error(), do...)
	e.err = err
	return e
}

// broke wraps what a stage could not do. A backend's refusal is still one.
func broke(stage string, err error) *Error {
	if own, is := errors.AsType[*Error](err); is {
		return own
	}
	if refusal, is := errors.AsType[*backends.Refusal](err); is {
		return &Error{Stage: stage, Layer: refusal.Layer, Reason: refusal.Why(), Remedy: refusal.Remedy, Denied: true, err: err}
	}
	e := &Error{Stage: stage, err: err}
	e.Reason, e.Remedy = remedy.Split(err)
	if errors.Is(err, syscall.EMFILE) {
		e.Remedy = Remedy{MoreFiles}
	}
	return e
}

// noRedaction returns the error for a text whose secrets can't be known, since one could not be read.
func noRedaction(text string, err error) *Error {
	reason, do := remedy.Split(err)
	if do == nil {
		do = Remedy{"see ", remedy.Command.With("sandboxmcp vault list")}
	}
	return refuse(StageVault, "secrets could not be taken out of "+text+": "+reason, do...)
}

// MoreFiles is what to do where sandboxmcp may not open as many files as it has to.
const MoreFiles = "raise its hard limit and start it again: sudo prlimit --nofile=4096:4096 --pid $$ does so for a shell and what it starts, " +
	"LimitNOFILE=4096 for a unit of systemd, --ulimit nofile=4096 for a container of Docker"

// Internal is what clients are told of an error whose text is the server's own: it may name files of the host. The log has the text.
const Internal = "this failed inside the server: its log has the reason"

// PublicText returns the text of an error for a client: why something was refused, or what went wrong in the sandbox, else Internal.
func PublicText(err error) string {
	if own, is := errors.AsType[*Error](err); is && own.Denied {
		return own.Error()
	}
	if inside, is := errors.AsType[*guest.Error](err); is {
		return inside.Message
	}
	if none, is := errors.AsType[*backends.NoProgram](err); is {
		return none.Error()
	}
	for _, known := range []error{ErrNoInput, ErrEnded, ErrSignal, ErrBusy, ErrNotRunning, errLeased, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return Internal
}
