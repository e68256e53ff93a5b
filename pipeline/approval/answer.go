package approval

import (
	"errors"
	"time"
)

// Errors of an answer.
var (
	ErrUnknown  = errors.New("there is no such question, or nobody waits for its answer any more")
	ErrAnswered = errors.New("it was answered already")
)

// Channel is how an answer came. Only code can make one: whatever an agent sends, no decoder turns
// it into a Channel, and an answer without one is refused.
type Channel struct{ name string }

// Elicitation is a dialog that the user's client showed.
func Elicitation() Channel { return Channel{"elicitation"} }

// CommandLine is a person at a terminal.
func CommandLine() Channel { return Channel{"cli"} }

// nobody is how the broker itself denies.
func nobody() Channel { return Channel{"nobody"} }

// String returns the name that the audit log has.
func (c Channel) String() string { return c.name }

// MarshalText makes JSON say it. There is no way back.
func (c Channel) MarshalText() ([]byte, error) { return []byte(c.name), nil }

// Answer is what was said. The zero value denies.
type Answer struct {
	Allowed bool      `json:"allowed"`
	By      Channel   `json:"by"`
	User    string    `json:"user,omitempty"` // who it was, as far as the channel knows
	Reason  string    `json:"reason,omitempty"`
	Until   time.Time `json:"until,omitzero"` // the end of an approval; Answer makes it no later than what was asked for
}
