package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestPublicText: a client learns why it is refused and what went wrong in its sandbox, and nothing of the host.
func TestPublicText(t *testing.T) {
	broken := errors.New("open /var/lib/sandboxmcp/state/x: permission denied")
	for want, err := range map[string]error{
		"no":                       refuse(StageValidate, "no"),
		"there is no such session": sessionError(StageBackend, session.ErrUnknown),
		"x: no such file":          broke(StageBackend, &guest.Error{Reason: guest.NotFound, Message: "x: no such file"}),
		context.Canceled.Error():   broke(StageBackend, fmt.Errorf("%w: %w", broken, context.Canceled)),
		Internal:                   broke(StageBackend, broken),
	} {
		if got := PublicText(err); !strings.HasPrefix(got, want) || strings.Contains(got, "/var/lib") {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
