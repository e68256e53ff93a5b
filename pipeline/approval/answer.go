package approval

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of an answer.
var (
	ErrUnknown  = errors.New("there is no such question, or nobody waits for its answer any more")
	ErrAnswered = errors.New("it was answered already")
	ErrOther    = errors.New("the answer is for another run or session: ask again")
	ErrScope    = errors.New("it can't be approved for that")
	ErrRoot     = errors.New("only root approves here")
	ErrQuestion = errors.New("that is nothing that can be approved")
)

// Scopes are whom an approval is for, the narrowest first. Each ends when its time is over, too.
const (
	ScopeRun     = "run"     // the run that the question was opened for
	ScopeSession = "session" // the session that the question was opened for
	ScopeTime    = "time"    // all of the namespace
)

// Channel identifies the way by which an answer came. Only code can make one: whatever an agent sends, no decoder turns
// it into a Channel, and an answer without one is refused.
type Channel struct {
	name string
	root bool
}

// Elicitation is a dialog that the user's client showed.
func Elicitation() Channel { return Channel{name: "elicitation"} }

// CommandLine is a person at a terminal.
func CommandLine() Channel { return Channel{name: "cli"} }

// OverHTTP is a person's identity over HTTP.
func OverHTTP() Channel { return Channel{name: "http"} }

// Page is a person's browser, on the server's page.
func Page() Channel { return Channel{name: "page"} }

// Root is root at a terminal, as the kernel says.
func Root() Channel { return Channel{"cli", true} }

// nobody returns the channel of the broker's own denials.
func nobody() Channel { return Channel{name: "nobody"} }

// isPerson reports whether a person answers that way.
func (c Channel) isPerson() bool {
	return c == Elicitation() || c == CommandLine() || c == OverHTTP() || c == Page() || c == Root()
}

// String returns the name that the audit log has.
func (c Channel) String() string { return c.name }

// MarshalText makes JSON say it. There is no way back.
func (c Channel) MarshalText() ([]byte, error) { return []byte(c.name), nil }

// Answer is a person's answer to a question. The zero value denies.
type Answer struct {
	Allowed bool      `json:"allowed"`
	By      Channel   `json:"by"`
	User    string    `json:"user,omitempty"` // who it was, as far as the channel knows
	Reason  string    `json:"reason,omitempty"`
	Scope   string    `json:"scope,omitempty"` // of an approval; "" is all that was asked for, which is ScopeTime
	Until   time.Time `json:"until,omitzero"`  // the end of an approval; Answer makes it no later than what was asked for
}

// IsTimeout reports whether a denial is one because nobody answered.
func (a Answer) IsTimeout() bool { return !a.Allowed && a.By == nobody() }

// boundAnswer is an answer as it will hold. People may say less than what was asked for, not more.
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
		return a, fmt.Errorf("%w: no %s waits for it", ErrScope, a.Scope)
	case !slices.Contains([]string{ScopeRun, ScopeSession, ScopeTime}, a.Scope):
		return a, fmt.Errorf("%w: %.40q is no scope", ErrScope, a.Scope)
	}
	if end := now.Add(q.For); a.Until.IsZero() || a.Until.After(end) {
		a.Until = end
	}
	return a, nil
}

// covers reports whether an answer to one question is one to another that asks for the same.
func (a Answer) covers(asked, own Question) bool {
	switch a.Scope {
	case ScopeRun:
		return own.Run == asked.Run
	case ScopeSession:
		return own.Session == asked.Session
	}
	return true
}
