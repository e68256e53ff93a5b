package pipeline

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/audit"
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

// Remedy tells a caller how to solve a problem.
type Remedy = remedy.Text

// Error is the reason why a request has no outcome: no program ran, or its result must not be disclosed. Programs
// that fail are results, not errors.
type Error struct {
	Stage  string `json:"stage"`
	Layer  string `json:"layer,omitempty"` // the isolation layer that failed
	Reason string `json:"reason"`
	Remedy Remedy `json:"remedy,omitzero"` // what to type or set
	// Denied means that policy or a missing requirement forbids the run; otherwise something broke.
	Denied bool `json:"denied"`

	logReason string // reason for the audit log, without quotes of the code; "" is Reason
	err       error  // see WithCause
}

func (e *Error) Error() string {
	if e.Remedy.IsZero() {
		return e.Reason
	}
	return e.Reason + " (" + e.Remedy.String() + ")"
}

// WithCause sets the wrapped error, and returns e.
func (e *Error) WithCause(err error) *Error {
	e.err = err
	return e
}

// WithLogReason sets another reason for the audit log, without quotes of the code, and returns e.
func (e *Error) WithLogReason(reason string) *Error {
	e.logReason = reason
	return e
}

// Unwrap returns the wrapped error, such as ErrBusy, context.Canceled or a *backends.Refusal.
func (e *Error) Unwrap() error { return e.err }

// Refuse returns the error for a run that policy forbids.
func Refuse(stage, reason string, do ...any) *Error {
	return &Error{Stage: stage, Reason: reason, Remedy: do, Denied: true}
}

// RefuseBecause is Refuse with the text of err, which it wraps.
func RefuseBecause(err error, stage string, do ...any) *Error {
	return Refuse(stage, err.Error(), do...).WithCause(err)
}

// WrapError wraps the error of a stage. A backend's refusal stays a refusal.
func WrapError(stage string, err error) *Error {
	if own, is := errors.AsType[*Error](err); is {
		return own
	}
	if refusal, is := errors.AsType[*backends.Refusal](err); is {
		return &Error{Stage: stage, Layer: refusal.Layer, Reason: refusal.FullReason(), Remedy: refusal.Remedy, Denied: true, err: err}
	}
	if errors.As(err, new(*audit.Unwritten)) {
		return unrecordedError("this could not be recorded in the audit log, so it was not done", true, err)
	}
	e := &Error{Stage: stage, err: err}
	e.Reason, e.Remedy = remedy.Split(err)
	switch {
	case errors.Is(err, syscall.EMFILE):
		e.Remedy = Remedy{RaiseFileLimit}
	case errors.Is(err, syscall.EAGAIN): // of clone and fork, see clone(2)
		e.Remedy = Remedy{RaiseProcessLimit}
	}
	return e
}

// UnrecordedError is the wrapped error if the audit log can't be written, or its entry can't be signed: without a
// record, nothing is done or disclosed. Its text names files of the host, so clients don't get it; they may retry.
type UnrecordedError struct{ Err error }

func (u *UnrecordedError) Error() string { return u.Err.Error() }

// Unwrap returns the reason.
func (u *UnrecordedError) Unwrap() error { return u.Err }

// unrecordedError returns the error for a run without a record.
func unrecordedError(reason string, denied bool, err error) *Error {
	do := Remedy{remedy.SeeLog}
	if audit.IsFull(err) {
		do = Remedy{remedy.FreeLog}
	}
	return &Error{Stage: StageAudit, Reason: reason, Remedy: do, Denied: denied, err: &UnrecordedError{err}}
}

// CheckRecordable returns an error if an effect could not be recorded now, as far as that is known. Streams call it
// before they begin their answer.
func (p *Pipeline) CheckRecordable() error {
	log, ok := p.Config.Audit.(interface{ Writable() error })
	if !ok {
		return nil
	}
	if err := log.Writable(); err != nil {
		return unrecordedError(notStartedReason, true, err)
	}
	return nil
}

// SeeServerLog replaces remedy.SeeLog and remedy.FreeLog for clients of a server.
const SeeServerLog = "try again later; the server's log has the reason"

const notStartedReason = "the run could not be recorded in the audit log, so it was not started"

// RedactionError returns the error for a text that can't be redacted because a secret could not be read.
func RedactionError(text string, err error) *Error {
	reason, do := remedy.Split(err)
	if do == nil {
		do = Remedy{"see ", remedy.Command.With("sandboxmcp vault list")}
	}
	return Refuse(StageVault, "secrets could not be removed from "+text+": "+reason, do...)
}

// RaiseFileLimit is the remedy if sandboxmcp reaches its limit of open files.
const RaiseFileLimit = "raise its hard limit and restart it: sudo prlimit --nofile=4096:4096 --pid $$ for a shell and its children, " +
	"LimitNOFILE=4096 for a systemd unit, --ulimit nofile=4096 for a Docker container"

// RaiseProcessLimit is the remedy if sandboxmcp reaches its limit of processes.
const RaiseProcessLimit = "its process limit is reached: end some processes, or raise the limit of its user (ulimit -u; prlimit " +
	"--nproc=4096:4096 --pid $$ " +
	"for a shell and its children) or of its cgroup (TasksMax for a systemd unit, --pids-limit for a Docker container)"

// HidePaths removes the directories of the files that err names from its text: clients don't get directories of the
// host.
func HidePaths(text string, err error) string {
	switch e := err.(type) {
	case nil:
		return text
	case *fs.PathError:
		text = hidePath(text, e.Path)
	case *os.LinkError:
		text = hidePath(hidePath(text, e.Old), e.New)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			text = HidePaths(text, one)
		}
		return text
	}
	return HidePaths(text, errors.Unwrap(err))
}

// HideDisk is HidePaths for an error of the server's own disk. Other errors are about files that the caller named.
func HideDisk(text string, err error) string {
	for _, own := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE} {
		if errors.Is(err, own) {
			return HidePaths(text, err)
		}
	}
	return text
}

func hidePath(text, path string) string {
	if !filepath.IsAbs(path) {
		return text
	}
	return strings.ReplaceAll(text, path, "…/"+filepath.Base(path))
}

// PublicError is an error whose text clients may see.
type PublicError string

func (f PublicError) Error() string { return string(f) }

// InternalErrorText replaces the text of internal errors, which may name files of the host, for clients. The log has
// the original.
const InternalErrorText = "this failed inside the server: its log has the reason"

// PublicText returns the text of an error for a client: the reason of a refusal, or of a failure in the sandbox, else
// InternalErrorText.
func PublicText(err error) string {
	if own, is := errors.AsType[*Error](err); is && own.Denied {
		if errors.As(err, new(*UnrecordedError)) { // the client may not have access to the log
			return own.Reason + " (" + SeeServerLog + ")"
		}
		return own.Error()
	}
	if inside, is := errors.AsType[*guest.Error](err); is {
		return inside.Message
	}
	if none, is := errors.AsType[*backends.NoProgram](err); is {
		return none.Error()
	}
	if fault, is := errors.AsType[PublicError](err); is {
		return fault.Error()
	}
	for _, known := range []error{ErrBusy, ErrNotRunning, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return InternalErrorText
}
