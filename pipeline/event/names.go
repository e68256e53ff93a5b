package event

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// IsEvent reports whether there is an event of this name.
func IsEvent(name string) bool { return slices.Contains(names[:], name) }

// Check returns an error for the first of kinds that is no event's name. It says which one was
// probably meant.
func Check(kinds []string) error {
	for _, kind := range kinds {
		if IsEvent(kind) {
			continue
		}
		if suggestion := spelling.DidYouMean(kind, names[:]); suggestion != "" {
			return fmt.Errorf("there is no event %.40q%s", kind, suggestion)
		}
		return fmt.Errorf("there is no event %.40q; there are: %s", kind, strings.Join(names[:], " "))
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

// rows are the kinds of rows that the audit log has and that are no events.
var rows = [...]string{
	"execution.refused", "execution.lost", "artifacts.lost", "execution.captured", "execution.interrupted", "session.bridged", "session.tool_called", "session.tool_answered", "session.network", "limits.changed", "egress.revoked",
	"approval.requested", "approval.approved", "approval.denied", "approval.revoked",
	"vault.added", "vault.rotated", "vault.deleted", "vault.rekeyed", "key.created", "key.rotated", "key.revoked", "audit.rotated", "audit.continued", "audit.deleted", "audit.lost",
	TokenCreated, TokenRevoked, StateBackedUp, StateRestored,
}

// Rows returns the kinds of rows that the audit log has: events, but for those that are only for watching, and more.
func Rows() []string {
	kinds := slices.DeleteFunc(Names(), func(name string) bool { return name == QueueBackpressure })
	return append(kinds, rows[:]...)
}

// CheckRows is Check for kinds of rows. Its error lists them all.
func CheckRows(kinds []string) error {
	all := Rows()
	for _, kind := range kinds {
		if slices.Contains(all, kind) {
			continue
		}
		meant := ""
		if suggestion := spelling.Nearest(kind, all); suggestion != "" {
			meant = fmt.Sprintf(": did you mean %q?", suggestion)
		}
		return fmt.Errorf("there is no kind of row %.40q%s; there are: %s", kind, meant, strings.Join(all, " "))
	}
	return nil
}
