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

	logReason string // the reason without any of the code, for the audit log; "" is Reason
	err       error  // see Because
}

func (e *Error) Error() string {
	if e.Remedy.IsZero() {
		return e.Reason
	}
	return e.Reason + " (" + e.Remedy.String() + ")"
}

// WithCause makes err the error below, and returns e.
func (e *Error) WithCause(err error) *Error {
	e.err = err
	return e
}

// WithLogReason has the audit log have another reason, without any of the code, and returns e.
func (e *Error) WithLogReason(reason string) *Error {
	e.logReason = reason
	return e
}

// Unwrap returns the error below, such as ErrBusy, context.Canceled or a *backends.Refusal.
func (e *Error) Unwrap() error { return e.err }

// Refuse returns the error for a run that policy forbids.
func Refuse(stage, reason string, do ...any) *Error {
	return &Error{Stage: stage, Reason: reason, Remedy: do, Denied: true}
}

// RefuseBecause is Refuse for an error, which is below its own.
func RefuseBecause(err error, stage string, do ...any) *Error {
	return Refuse(stage, err.Error(), do...).WithCause(err)
}

// WrapError wraps what a stage could not do. A backend's refusal is still one.
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

// UnrecordedError is the error below where the audit log can't be written, or what is to be written can't be signed: nothing
// is done, or told, without a record. It names files of the host, which no client is told of; what it was about may be
// tried again.
type UnrecordedError struct{ Err error }

func (u *UnrecordedError) Error() string { return u.Err.Error() }

// Unwrap returns the reason.
func (u *UnrecordedError) Unwrap() error { return u.Err }

// unrecordedError returns the error for a run of which there is no record.
func unrecordedError(reason string, denied bool, err error) *Error {
	do := Remedy{remedy.SeeLog}
	if audit.IsFull(err) {
		do = Remedy{remedy.FreeLog}
	}
	return &Error{Stage: StageAudit, Reason: reason, Remedy: do, Denied: denied, err: &UnrecordedError{err}}
}

// CheckRecordable returns the error of what would be done now and could not be recorded, nil if it could be, as far as that
// is known: for answers that begin before anything is done.
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

// SeeServerLog is what clients of a server can do instead of remedy.SeeLog and remedy.FreeLog.
const SeeServerLog = "try again later; who runs the server sees why in its log"

const notStartedReason = "the run could not be recorded in the audit log, so it was not started"

// RedactionError returns the error for a text whose secrets can't be known, since one could not be read.
func RedactionError(text string, err error) *Error {
	reason, do := remedy.Split(err)
	if do == nil {
		do = Remedy{"see ", remedy.Command.With("sandboxmcp vault list")}
	}
	return Refuse(StageVault, "secrets could not be taken out of "+text+": "+reason, do...)
}

// RaiseFileLimit is what to do where sandboxmcp may not open as many files as it has to.
const RaiseFileLimit = "raise its hard limit and start it again: sudo prlimit --nofile=4096:4096 --pid $$ does so for a shell and what it starts, " +
	"LimitNOFILE=4096 for a unit of systemd, --ulimit nofile=4096 for a container of Docker"

// RaiseProcessLimit is what to do where sandboxmcp may not start as many processes as it has to.
const RaiseProcessLimit = "it may start no more processes: end some, or raise the limit of its user (ulimit -u; prlimit --nproc=4096:4096 --pid $$ does so " +
	"for a shell and what it starts) or of its cgroup (TasksMax for a unit of systemd, --pids-limit for a container of Docker)"

// HidePaths returns a text about an error without the directories of the files that the error names: clients are told
// of none of the host.
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

// HideDisk is HidePaths for an error of the server's own disk. Other errors are about files that whoever asks has
// named.
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

// InternalErrorText is what clients are told of an error whose text is the server's own: it may name files of the host. The log
// has the text.
const InternalErrorText = "this failed inside the server: its log has the reason"

// PublicText returns the text of an error for a client: why something was refused, or what went wrong in the sandbox,
// else Internal.
func PublicText(err error) string {
	if own, is := errors.AsType[*Error](err); is && own.Denied {
		if errors.As(err, new(*UnrecordedError)) { // the log need not be the client's
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
