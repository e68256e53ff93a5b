package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestPublicText: a client learns why it is refused and which error its sandbox had, and nothing of the host.
func TestPublicText(t *testing.T) {
	broken := errors.New("open /var/lib/sandboxmcp/state/x: permission denied")
	for want, err := range map[string]error{
		"no":                       pipeline.Refuse(pipeline.StageValidate, "no"),
		"unknown session":          session.ErrorOf(pipeline.StageBackend, session.ErrUnknown),
		"x: no such file":          pipeline.WrapError(pipeline.StageBackend, &guest.Error{Reason: guest.NotFound, Message: "x: no such file"}),
		context.Canceled.Error():   pipeline.WrapError(pipeline.StageBackend, fmt.Errorf("%w: %w", broken, context.Canceled)),
		pipeline.InternalErrorText: pipeline.WrapError(pipeline.StageBackend, broken),
	} {
		if got := pipeline.PublicText(err); !strings.HasPrefix(got, want) || strings.Contains(got, "/var/lib") {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}

// TestFewLeft: an error at a limit of the kernel names the limit, and how to raise it.
func TestFewLeft(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.EMFILE: pipeline.RaiseFileLimit, syscall.EAGAIN: pipeline.RaiseProcessLimit,
		syscall.EINVAL: ""} {
		e := pipeline.WrapError(pipeline.StageBackend, fmt.Errorf("start the launcher: %w", &os.PathError{Op: "fork/exec", Path: "/proc/self/exe",
			Err: errno}))
		if got := e.Remedy.String(); got != want {
			t.Errorf("%v: %q, want %q", errno, got, want)
		}
	}
}
