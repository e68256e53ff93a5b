package approval

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of an answer.
var (
	ErrUnknown  = errors.New("unknown question, or it no longer waits for an answer")
	ErrAnswered = errors.New("it is answered already")
	ErrOther    = errors.New("the answer is for another run or session: ask again")
	ErrScope    = errors.New("it can't be approved for that scope")
	ErrRoot     = errors.New("only root may approve here")
	ErrQuestion = errors.New("this can't be approved")
)

// Scopes of an approval, the narrowest first. Each also ends when its time is over.
const (
	ScopeRun     = "run"     // the run that the question was opened for
	ScopeSession = "session" // the session that the question was opened for
	ScopeTime    = "time"    // all of the namespace
)

// Channel identifies the way by which an answer came. Only code can create one: no decoder turns an agent's input
// into a Channel, and an answer without one is refused.
type Channel struct {
	name string
	root bool
}

// Elicitation is a dialog in the user's client.
func Elicitation() Channel { return Channel{name: "elicitation"} }

// CommandLine is a person at a terminal.
func CommandLine() Channel { return Channel{name: "cli"} }

// OverHTTP is a person's identity over HTTP.
func OverHTTP() Channel { return Channel{name: "http"} }

// Page is a person's browser, on the server's page.
func Page() Channel { return Channel{name: "page"} }

// Root is root at a terminal, verified by the kernel.
func Root() Channel { return Channel{"cli", true} }

// nobody returns the channel of the broker's own denials.
func nobody() Channel { return Channel{name: "nobody"} }

// isPerson reports whether answers of the channel come from a person.
func (c Channel) isPerson() bool {
	return c == Elicitation() || c == CommandLine() || c == OverHTTP() || c == Page() || c == Root()
}

// String returns the channel's name in the audit log.
func (c Channel) String() string { return c.name }

// MarshalText encodes the name. There is no decoder.
func (c Channel) MarshalText() ([]byte, error) { return []byte(c.name), nil }

// Answer is a person's answer to a question. The zero value denies.
type Answer struct {
	Allowed bool      `json:"allowed"`
	By      Channel   `json:"by"`
	User    string    `json:"user,omitempty"` // the person, as far as the channel knows
	Reason  string    `json:"reason,omitempty"`
	Scope   string    `json:"scope,omitempty"` // of an approval; "" is ScopeTime
	Until   time.Time `json:"until,omitzero"`  // end of an approval; Answer limits it to the requested time
}

// IsTimeout reports whether the question was denied because it got no answer.
func (a Answer) IsTimeout() bool { return !a.Allowed && a.By == nobody() }

// boundAnswer validates an answer and limits it to the request: people may approve less, not more.
func boundAnswer(a Answer, q Question, now time.Time) (Answer, error) {
	a.User, a.Reason = clip(a.User), clip(a.Reason)
	if !a.Allowed {
		a.Scope, a.Until = "", time.Time{}
		return a, nil
	}
	switch {
	case a.Scope == "":
		a.Scope = ScopeTime
	case a.Scope == ScopeRun && q.Run == "", a.Scope == ScopeSession && q.Session == "":
		return a, fmt.Errorf("%w: the question has no %s", ErrScope, a.Scope)
	case !slices.Contains([]string{ScopeRun, ScopeSession, ScopeTime}, a.Scope):
		return a, fmt.Errorf("%w: %.40q is not a scope", ErrScope, a.Scope)
	}
	if end := now.Add(q.For); a.Until.IsZero() || a.Until.After(end) {
		a.Until = end
	}
	return a, nil
}

// covers reports whether an answer to the question asked also answers own, which requests the same.
func (a Answer) covers(asked, own Question) bool {
	switch a.Scope {
	case ScopeRun:
		return own.Run == asked.Run
	case ScopeSession:
		return own.Session == asked.Session
	}
	return true
}
