// Package control is the API of people: what they can ask of a running server, over HTTP and JSON.
//
// The server answers it on a Unix socket in a directory that only its user can enter, where each connection's other end
// must be the same user, or root, as the kernel says it; and over HTTP to the identities of people, of whom those that
// have namespaces see nothing of any other. Nothing of this is reachable from inside of a sandbox, and through a
// browser only as far as package page lets it. The commands about a running server and the page are clients of it.
//
// [Operations] has the table, from which GET /v1/openapi.json is made. An answer is JSON, or for events and cells a
// stream: one JSON object a line, or with Accept: text/event-stream one an event. Most requests are answered within
// seconds; those that have something run take as long as programs do, and end with their client. Who asked is in the
// audit log. An error is {"error": text}, with a "hint" where there is something to do about it, and the status 400 for
// what can't be understood or was not asked for, 403 for what is not the caller's, 404 where nobody waits for the
// answer and where there is no such session, 409 where there is an answer and where an id may be several sessions', 410
// where a session has ended, 422 for what policy forbids, and 503 where there is too much under way.
//
// One request is of the socket alone, and no operation: POST /v1/runs, by which the command line hands over a run with
// open files; see run.go.
package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// Errors of [Dial].
var (
	ErrNone    = errors.New("no server runs")
	ErrSeveral = errors.New("several servers run")
)

// Several is the ErrSeveral that lists them.
type Several struct{ Servers []Server }

func (s *Several) Error() string {
	names := make([]string, len(s.Servers))
	for i, v := range s.Servers {
		names[i] = v.Name
	}
	return ErrSeveral.Error() + ": " + strings.Join(names, ", ")
}

func (s *Several) Unwrap() error { return ErrSeveral }

// Server describes a server.
type Server struct {
	// Name is its socket's name: its process id, and a number after it where servers of several
	// containers that share a state directory have the same one. Set by the one who connects.
	Name     string    `json:"name,omitempty"`
	PID      int       `json:"pid"`
	Version  string    `json:"version"`
	Began    time.Time `json:"began"`
	Database string    `json:"database"`
	// Namespace is the only one that its agents may use; "" lets them name one.
	Namespace string `json:"namespace,omitempty"`
	// Address is where it answers over HTTP, as a URL; "" is nowhere.
	Address string `json:"address,omitempty"`
}

// Dir returns the directory that the sockets of this user's servers are in: in runtimeDir, which is
// XDG_RUNTIME_DIR, if it is a directory of this user's (sudo leaves it at another's), and else in the
// state directory.
func Dir(runtimeDir, stateDir string) string {
	if info, err := os.Stat(runtimeDir); filepath.IsAbs(runtimeDir) && err == nil && info.IsDir() && statefile.IsOurs(info) {
		return filepath.Join(runtimeDir, "sandboxmcp")
	}
	return filepath.Join(stateDir, "run", "sandboxmcp")
}

const socketSuffix = ".sock"

// maxNames is how many servers can have the same process id.
const maxNames = 32

// socketName is the i-th name that a server of this process id can have.
func socketName(pid, i int) string {
	if i == 0 {
		return strconv.Itoa(pid)
	}
	return fmt.Sprintf("%d-%d", pid, i+1)
}

// message is the body of an error.
type message struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"` // what to do about it, in words of the command line
}

// Verdict is a person's answer to a question.
type Verdict struct {
	ID      string  `json:"id" about:"The id of the question." required:"true" range:"..64"`
	Allow   bool    `json:"allow" about:"Whether to approve it." required:"true" exact:"true"`
	Reason  string  `json:"reason,omitempty" about:"The reason, for the log and the agent." blank:"true"`
	Scope   string  `json:"scope,omitempty" about:"The scope of an approval. Default: all of the question." oneof:"run session time"`
	Seconds float64 `json:"seconds,omitempty" about:"Duration of an approval. Default, and maximum: the question's." range:"0..1000000000000"`
}

// Grant is an approval that holds.
type Grant struct {
	Question approval.Question `json:"question"`
	Scope    string            `json:"scope"`
	Until    time.Time         `json:"until"`
	By       string            `json:"by"` // the way that the answer came
	User     string            `json:"user,omitempty"`
	Reason   string            `json:"reason,omitempty"`
}

// Outcome is the effect of an answer.
type Outcome struct {
	Question approval.Question `json:"question"`
	Allowed  bool              `json:"allowed"`
	Revoked  bool              `json:"revoked,omitempty"` // an approval that held was taken back
	Scope    string            `json:"scope,omitempty"`   // of an approval
	Until    time.Time         `json:"until,omitzero"`    // the end of an approval
	Late
}

// Late says that what was asked for is done, and that the audit log has no row of it yet; "" is that it has.
type Late struct {
	Late string `json:"late,omitempty"`
}

type questions struct {
	Approvals []approval.Question `json:"approvals"`
}

type grants struct {
	Grants []Grant `json:"grants"`
}
