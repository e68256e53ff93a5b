package approval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// What a question can be about.
const (
	Egress  = "egress"  // a name, or a pattern of names, to reach
	Host    = "host"    // a command on the host
	Package = "package" // a package to install
)

// For how long an approval holds.
const (
	DefaultFor = time.Hour
	MaxFor     = 24 * time.Hour
)

// Question asks a person for one permission. Only what is in it is approved, and nothing that resembles it.
type Question struct {
	ID         string        `json:"id"`   // a ULID, made by Open
	Kind       string        `json:"kind"` // Egress, Host or Package
	What       string        `json:"what"` // the name or pattern, the command, the package; any text but NUL
	Namespace  string        `json:"namespace"`
	Session    string        `json:"session,omitempty"`
	Run        string        `json:"run,omitempty"`         // the id of the run that waits for the answer, if one does
	Client     string        `json:"client,omitempty"`      // whose agent asks
	Reason     string        `json:"reason,omitempty"`      // as the agent gives it: a claim, nothing more
	CodeSHA256 string        `json:"code_sha256,omitempty"` // "" asks for all code of the namespace
	CodeOf     string        `json:"code_of,omitempty"`     // the SHA-256 of the code that asks, for people to look at: it bounds nothing
	CodeHead   string        `json:"code_head,omitempty"`   // the beginning of that code, free of secrets
	For        time.Duration `json:"for"`                   // how long an approval holds: nanoseconds; 0 is an hour, a day the longest
	Asked      time.Time     `json:"asked"`                 // set by Open
	Expires    time.Time     `json:"expires"`               // set by Open: when silence becomes a no
}

// Bounds of a question, in bytes. What is asked is never cut: a person would approve something else.
const (
	maxWhat   = 4 << 10
	maxWord   = 256
	maxReason = 1 << 10
)

// key identifies what a question asks for. The asker is not in it: what two runs wait for is one question to a person.
type key struct{ kind, namespace, what, code string }

func (q Question) key() key { return key{q.Kind, q.Namespace, q.What, q.CodeSHA256} }

// normalize returns q as it can be shown and recorded, without what Open sets.
func (q Question) normalize() (Question, error) {
	switch {
	case !slices.Contains([]string{Egress, Host, Package}, q.Kind):
		return q, fmt.Errorf("%.40q is no kind of question", q.Kind)
	case strings.TrimSpace(q.What) == "":
		return q, errors.New("it does not say what it asks for")
	case len(q.What) > maxWhat:
		return q, fmt.Errorf("what it asks for has %d bytes, and a person can be shown %d", len(q.What), maxWhat)
	case !utf8.ValidString(q.What) || strings.Contains(q.What, "\x00"):
		return q, errors.New("what it asks for is not text")
	case q.For < 0:
		return q, errors.New("it asks for a negative time")
	}
	for _, s := range []string{q.Namespace, q.CodeSHA256, q.CodeOf, q.Session, q.Run, q.Client} {
		if len(s) > maxWord || !utf8.ValidString(s) {
			return q, fmt.Errorf("%.40q is too long, or no text", s)
		}
	}
	q.For = min(cmp.Or(q.For, DefaultFor), MaxFor)
	q.Reason, q.CodeHead = clip(q.Reason), clip(q.CodeHead)
	return q, nil
}

// clip returns the beginning of a text, at most maxReason bytes of it.
func clip(s string) string { return safetext.Clip(strings.ToValidUTF8(s, "\uFFFD"), maxReason) }
