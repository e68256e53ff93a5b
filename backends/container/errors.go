package container

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
)

// startError reports that an engine could not create or start a container.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() + runtimeHint(e.err.Error()) }
func (e *startError) Unwrap() error { return e.err }

// endedError reports that a container ended before its init's greeting.
type endedError struct{ why string }

func (e *endedError) Error() string { return e.why }

// isTransient reports whether starting a container may be retried after err. No program was sent.
func isTransient(err error) bool {
	return !errors.As(err, new(*backends.Refusal)) && !errors.Is(err, ErrNoImage) &&
		(errors.As(err, new(*startError)) || errors.As(err, new(*endedError)) || errors.Is(err, call.ErrLost))
}

// handshakeError adds the container's state to an error of the handshake.
func (h *initHandle) handshakeError(err error) error {
	select {
	case <-h.ended:
	case <-time.After(time.Second):
		return fmt.Errorf("%w, although the container is running%s", err, h.lastStderr())
	}
	if h.waitErr != nil {
		return &endedError{fmt.Sprintf("%v, and the container's state is unknown: %v", err, h.waitErr)}
	}
	return &endedError{err.Error() + ": " + h.describeExit() + h.lastStderr()}
}

// describeExit describes how the container ended.
func (h *initHandle) describeExit() string {
	switch e := h.exit; {
	case e.OOM:
		return "the kernel killed it: out of memory"
	case e.Removed:
		return "somebody else removed it, or the engine was stopped"
	case e.Why != "":
		return fmt.Sprintf("it ended with code %d: %s", e.Code, e.Why)
	case e.Code == 128+9:
		return "it was killed"
	default:
		return fmt.Sprintf("it ended with code %d", e.Code)
	}
}

// lastStderr returns the last lines of PID 1's standard error, with a hint.
func (h *initHandle) lastStderr() string {
	text := h.stderr.String()
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)%s", text, runtimeHint(text))
}

// runtimeHint explains runtime messages that name only a symptom.
func runtimeHint(text string) string {
	text = strings.ToLower(text)
	switch {
	case strings.Contains(text, "exec format error"):
		return "; the image or sandboxmcp itself is for another processor architecture"
	case strings.Contains(text, "no such file or directory") && strings.Contains(text, InitPath):
		return "; the engine does not see sandboxmcp's file: does it run elsewhere, or with a /tmp or home of its own?"
	case strings.Contains(text, "permission denied"):
		return "; is sandboxmcp's file, or its socket, on a file system that is mounted noexec, or kept from containers by SELinux or AppArmor?"
	}
	return ""
}
