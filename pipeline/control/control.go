// Package control is the API for people to a running server, over HTTP and JSON.
//
// The server answers it on a Unix socket in a directory that only its user can enter; the kernel verifies that the
// client is the same user, or root. It also answers over HTTP to people's identities; those with namespaces see only
// these. Nothing of it is reachable from a sandbox, and a browser reaches only the part that package page allows. The
// commands about a running server and the page are clients of it.
//
// [Operations] has the table, from which GET /v1/openapi.json is generated. An answer is JSON, or for events and
// cells a stream: one JSON object per line, or with Accept: text/event-stream one per event. Most requests are
// answered within seconds; those that run a program take as long as the program, and end with their client. The audit
// log records the caller. An error is {"error": text}, with a "hint" if there is a remedy, and a status: 400 for an
// invalid request or answer, 403 for missing access, 404 for a question that no longer waits and for an unknown
// session, 409 for an answered question and for an ambiguous session id, 410 for an ended session, 422 if policy
// forbids it, and 503 if the server is overloaded.
//
// One request is only for the socket, and not an operation: POST /v1/runs, with which the command line hands over a
// run with open files; see run.go.
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
	ErrNone    = errors.New("no server is running")
	ErrSeveral = errors.New("several servers are running")
)

// Several is the ErrSeveral with the list of servers.
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
	// Name is the name of its socket: its process id, and a suffix if servers of several containers that share a
	// state directory have the same one. The client sets it.
	Name     string    `json:"name,omitempty"`
	PID      int       `json:"pid"`
	Version  string    `json:"version"`
	Began    time.Time `json:"began"`
	Database string    `json:"database"`
	// Namespace is the only namespace of its agents; "" lets them choose.
	Namespace string `json:"namespace,omitempty"`
	// Address is its HTTP URL; "" without HTTP.
	Address string `json:"address,omitempty"`
}

// Dir returns the directory for the sockets of this user's servers: in runtimeDir, which is XDG_RUNTIME_DIR, if this
// user owns it (sudo keeps another user's), else in the state directory.
func Dir(runtimeDir, stateDir string) string {
	if info, err := os.Stat(runtimeDir); filepath.IsAbs(runtimeDir) && err == nil && info.IsDir() && statefile.IsOurs(info) {
		return filepath.Join(runtimeDir, "sandboxmcp")
	}
	return filepath.Join(stateDir, "run", "sandboxmcp")
}

const socketSuffix = ".sock"

// maxNames bounds the servers with the same process id.
const maxNames = 32

// socketName returns the i-th possible name for a server of this process id.
func socketName(pid, i int) string {
	if i == 0 {
		return strconv.Itoa(pid)
	}
	return fmt.Sprintf("%d-%d", pid, i+1)
}

// message is the body of an error.
type message struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"` // remedy, in words of the command line
}

// Verdict is a person's answer to a question.
type Verdict struct {
	ID      string  `json:"id" about:"The id of the question." required:"true" range:"..64"`
	Allow   bool    `json:"allow" about:"Whether to approve it." required:"true" exact:"true"`
	Reason  string  `json:"reason,omitempty" about:"The reason, for the log and the agent." blank:"true"`
	Scope   string  `json:"scope,omitempty" about:"The scope of an approval. Default: all of the question." oneof:"run session time"`
	Seconds float64 `json:"seconds,omitempty" about:"Duration of an approval. Default, and maximum: the question's." range:"0..1000000000000"`
}

// Grant is an approval in force.
type Grant struct {
	Question approval.Question `json:"question"`
	Scope    string            `json:"scope"`
	Until    time.Time         `json:"until"`
	By       string            `json:"by"` // channel of the answer
	User     string            `json:"user,omitempty"`
	Reason   string            `json:"reason,omitempty"`
}

// Outcome is the effect of an answer.
type Outcome struct {
	Question approval.Question `json:"question"`
	Allowed  bool              `json:"allowed"`
	Revoked  bool              `json:"revoked,omitempty"` // an approval was revoked
	Scope    string            `json:"scope,omitempty"`   // of an approval
	Until    time.Time         `json:"until,omitzero"`    // end of an approval
	Late
}

// Late is a warning that the request took effect but the audit log does not have its row yet; "" means that it has.
type Late struct {
	Late string `json:"late,omitempty"`
}

type questions struct {
	Approvals []approval.Question `json:"approvals"`
}

type grants struct {
	Grants []Grant `json:"grants"`
}
