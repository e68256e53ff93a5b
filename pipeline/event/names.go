package event

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// IsEvent reports whether an event has this name.
func IsEvent(name string) bool { return slices.Contains(names[:], name) }

// Check returns an error about the first unknown event name in kinds, with a suggestion.
func Check(kinds []string) error {
	for _, kind := range kinds {
		if IsEvent(kind) {
			continue
		}
		if suggestion := spelling.DidYouMean(kind, names[:]); suggestion != "" {
			return fmt.Errorf("unknown event %.40q%s", kind, suggestion)
		}
		return fmt.Errorf("unknown event %.40q; choose from: %s", kind, strings.Join(names[:], " "))
	}
	return nil
}

// Kinds of rows about bearer tokens.
const (
	TokenCreated = "token.created"
	TokenRevoked = "token.revoked"
)

// Kinds of rows about backups of all state.
const (
	StateBackedUp = "state.backed_up"
	StateRestored = "state.restored"
)

// rows are the kinds of rows in the audit log that are not events.
var rows = [...]string{
	"execution.refused", "execution.lost", "artifacts.lost", "execution.captured", "execution.interrupted", "session.bridged",
	"session.tool_called", "session.tool_answered", "session.network", "limits.changed", "egress.revoked",
	"approval.requested", "approval.approved", "approval.denied", "approval.revoked",
	"vault.added", "vault.rotated", "vault.deleted", "vault.rekeyed", "key.created", "key.rotated", "key.revoked", "audit.rotated",
	"audit.continued", "audit.deleted", "audit.lost",
	TokenCreated, TokenRevoked, StateBackedUp, StateRestored,
}

// Rows returns all kinds of rows in the audit log: events, except those only for watching, and rows.
func Rows() []string {
	kinds := slices.DeleteFunc(Names(), func(name string) bool { return name == QueueBackpressure })
	return append(kinds, rows[:]...)
}

// CheckRows is Check for kinds of rows. Its error lists all kinds.
func CheckRows(kinds []string) error {
	all := Rows()
	for _, kind := range kinds {
		if slices.Contains(all, kind) {
			continue
		}
		hint := ""
		if suggestion := spelling.Nearest(kind, all); suggestion != "" {
			hint = fmt.Sprintf(": did you mean %q?", suggestion)
		}
		return fmt.Errorf("unknown kind of row %.40q%s; choose from: %s", kind, hint, strings.Join(all, " "))
	}
	return nil
}
