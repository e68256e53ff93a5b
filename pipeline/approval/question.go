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

// Kinds of questions.
const (
	Egress  = "egress"  // a name, or a pattern of names, to reach
	Host    = "host"    // a command on the host
	Package = "package" // a package to install
	Changes = "changes" // a change set to apply
)

// Default and maximum duration of an approval.
const (
	DefaultFor = time.Hour
	MaxFor     = 24 * time.Hour
)

// Question asks a person for one permission. An approval covers exactly this, and nothing similar.
type Question struct {
	ID         string        `json:"id"`   // a ULID, set by Open
	Kind       string        `json:"kind"` // Egress, Host, Package or Changes
	What       string        `json:"what"` // the name or pattern, the command, the package, the change set; any text but NUL
	Namespace  string        `json:"namespace"`
	Session    string        `json:"session,omitempty"`
	Run        string        `json:"run,omitempty"`         // id of the waiting run, if any
	Client     string        `json:"client,omitempty"`      // the agent's program
	Reason     string        `json:"reason,omitempty"`      // the agent's claim, not verified
	CodeSHA256 string        `json:"code_sha256,omitempty"` // "" requests it for all code of the namespace
	CodeOf     string        `json:"code_of,omitempty"`     // SHA-256 of the asking code, for information only
	CodeHead   string        `json:"code_head,omitempty"`   // beginning of that code, or the paths of a change set, redacted
	ChangeSet  string        `json:"change_set,omitempty"`  // id of the change set, for the kind Changes
	For        time.Duration `json:"for"`                   // duration of an approval in nanoseconds; 0 is an hour, the maximum a day
	Asked      time.Time     `json:"asked"`                 // set by Open
	Expires    time.Time     `json:"expires"`               // set by Open: then it is denied
}

// Bounds of a question's fields, in bytes. The action itself is never cut: a person would approve something else.
const (
	maxWhat   = 4 << 10
	maxWord   = 256
	maxReason = 1 << 10
)

// key identifies a requested permission. The asker is not part of it: two runs that request the same share one
// question.
type key struct{ kind, namespace, what, code string }

func (q Question) key() key { return key{q.Kind, q.Namespace, q.What, q.CodeSHA256} }

// normalize validates q, and cuts its texts for display and the log. Open sets the rest.
func (q Question) normalize() (Question, error) {
	switch {
	case !slices.Contains([]string{Egress, Host, Package, Changes}, q.Kind):
		return q, fmt.Errorf("%.40q is not a kind of question", q.Kind)
	case strings.TrimSpace(q.What) == "":
		return q, errors.New("it does not name a permission")
	case len(q.What) > maxWhat:
		return q, fmt.Errorf("the permission has %d bytes, the maximum is %d", len(q.What), maxWhat)
	case !utf8.ValidString(q.What) || strings.Contains(q.What, "\x00"):
		return q, errors.New("the permission is not text")
	case q.For < 0:
		return q, errors.New("its duration is negative")
	}
	for _, s := range []string{q.Namespace, q.CodeSHA256, q.CodeOf, q.Session, q.Run, q.Client} {
		if len(s) > maxWord || !utf8.ValidString(s) {
			return q, fmt.Errorf("%.40q is too long, or not text", s)
		}
	}
	q.For = min(cmp.Or(q.For, DefaultFor), MaxFor)
	q.Reason, q.CodeHead = clip(q.Reason), clip(q.CodeHead)
	return q, nil
}

// clip cuts a text to maxReason bytes.
func clip(s string) string { return safetext.Clip(strings.ToValidUTF8(s, "\uFFFD"), maxReason) }
