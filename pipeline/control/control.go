// Package control lets the command line of the same user talk to a running server.
//
// A server listens on a Unix socket in a directory that only its user can enter, and speaks HTTP/1.1
// with JSON. Each connection's other end must be the same user, or root, as the kernel says it.
// Nothing of this is reachable from inside of a sandbox, nor through a browser.
//
// Whatever lets people look and decide, such as a dashboard, speaks it, too:
//
//	GET  /v1/server          [Server]
//	GET  /v1/stats           figures, as a pipeline.Stats
//	GET  /v1/queue           a pipeline.Load
//	GET  /v1/jobs            [pipeline.Job...], the runs in the background
//	GET  /v1/usage           [Used...], what living sessions use; of one with session={id}
//	GET  /v1/limits          [Limits] of a namespace, or of session={id}
//	POST /v1/limits          a [Change], answered with the [Limits] in force then
//	GET  /v1/approvals       {"approvals": [approval.Question...]}, those that wait for an answer
//	GET  /v1/grants          {"grants": [Grant...]}, the approvals that hold
//	GET  /v1/events          a stream of event.Event and [Notice], one JSON object a line
//	POST /v1/approvals       a [GrantRequest], as for grants, which is asked instead of given; answered with the question
//	POST /v1/approvals/{id}  {"allow": bool, "reason": text, "scope": "run", "session" or "time", "seconds": n}
//	                         answered with an [Outcome]
//	POST /v1/grants          a [GrantRequest]: approves what nobody has asked for; answered with a [Grant]
//
//	GET    /v1/sessions              [session.Info...]
//	POST   /v1/sessions              a [NewSession], answered with a session.Info
//	DELETE /v1/sessions/{id}         ends one, which is answered with its last session.Info
//	GET    /v1/sessions/{id}/state   a session.State
//	POST   /v1/sessions/{id}/bridge  a [Value], answered with a pipeline.Result
//	POST   /v1/sessions/{id}/cells   a [Cell], answered with a stream of [Part], one JSON object a line
//	POST   /v1/runs                  a [Handed]: hands a run of the command line over, of this very user alone; see run.go
//	POST   /v1/cells/{run}/interrupt interrupts a cell, whose stream goes on to its end
//
// The beginning of a session's id stands for it where no other has it. What lists things takes a namespace.
// Other requests are answered within seconds; those of this block, but for the first and the last, take as long as
// programs do, and end with their client: one that goes away while its cell runs has interrupted it. Who asked
// is in the audit log.
//
// Only "allow" must be there. A no to an approval that holds takes it back; scope and seconds are of a
// yes, and say less than what was asked for or what was asked for: never more. Events can be asked for
// by namespace, kind (more than once) and since, the number of the last one seen; the stream begins with
// those that the server remembers, and goes on until either side ends it, or with follow=false not at all. An error is
// {"error": text}, with a "hint" where there is something to do about it, and the status 400 for what can't be
// understood or was not asked for, 404 where nobody waits for the answer and where there is no such session, 409 where
// there is an answer and where an id may be several sessions', 410 where a session has ended, 422 for what policy forbids, and
// 503 where there is too much under way. Where only root approves, a yes of others has 403.
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
	if info, err := os.Stat(runtimeDir); filepath.IsAbs(runtimeDir) && err == nil && info.IsDir() && statefile.Ours(info) {
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
	Allow   bool    `json:"allow"`
	Reason  string  `json:"reason,omitempty"`
	Scope   string  `json:"scope,omitempty"`   // of a yes: a scope of package approval; "" is all that was asked for
	Seconds float64 `json:"seconds,omitempty"` // how long a yes holds; 0 is as long as was asked for, which is the most
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
}

type questions struct {
	Approvals []approval.Question `json:"approvals"`
}

type grants struct {
	Grants []Grant `json:"grants"`
}
