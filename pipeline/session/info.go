// Package session keeps sandboxes whose interpreter stays: variables, imports, files and background threads live from
// one request to the next.
//
// The effects are New (new), End (end), Pause and Snapshot, which keep the files of a home directory (pause),
// NewContext and EndContext (contexts), SetNetwork, NewLimits, and Bridge, which copies a value from one session to
// another. Each finds its session in the manager and acts on it under its lock: each interpreter runs one cell at a
// time (guard, line), and an ended session runs none. The manager ends unused and expired sessions, and replaces
// interpreters that die (interpreter, restart).
//
// A file calls only files behind it in this order: limits, inspect, bridge, contexts, new, end, pause, changes, agent,
// error, info, line, network, restart, guests, interpreter, guard, state, manager, session, tools.
package session

import (
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
)

// Info describes a session.
type Info struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Language  string    `json:"language"` // of its first interpreter, or of the interpreters that a bare session shows
	Backend   string    `json:"backend"`
	Profile   string    `json:"profile"`
	State     string    `json:"state"` // "idle", "busy" or "dead"
	Created   time.Time `json:"created"`
	Used      time.Time `json:"last_used"`
	Idle      float64   `json:"idle_seconds"`     // unused for this long, it ends
	Lifetime  float64   `json:"lifetime_seconds"` // after this time it ends in any case
	Cells     int       `json:"cells"`            // number of cells run
	Restarts  []Restart `json:"restarts,omitempty"`
	Closing
	InWorkspace
	Owner  string          `json:"owner,omitempty"` // identity that created it over HTTP
	Late   string          `json:"late,omitempty"`  // set if the audit log could not be written at the session's end and gets the row later
	Pause  bool            `json:"pause,omitempty"` // its files are kept when its lifetime is over
	Bare   bool            `json:"bare,omitempty"`  // it has no first interpreter
	Home   string          `json:"home,omitempty"`  // its home directory; "" is the workspace
	Limits pipeline.Limits `json:"limits"`
	Layers []string        `json:"layers"` // isolation layers in force

	Template string            `json:"template,omitempty"` // template that its client named
	Metadata map[string]string `json:"metadata,omitempty"` // labels of its client
	Allow    []string          `json:"allow,omitempty"`    // hosts that it may reach, if it was created with a list
	Tools    []string          `json:"tools,omitempty"`    // functions of its client that its code can call
}

// InWorkspace describes a session whose /workspace is a directory of the host.
type InWorkspace struct {
	Workspace     string       `json:"workspace,omitempty"`      // as the operator calls it
	Changes       *changes.Set `json:"changes,omitempty"`        // when they were proposed last, without the entries
	ChangesFailed string       `json:"changes_failed,omitempty"` // why they could not be stored at its end
}

// Closing describes how a session ended.
type Closing struct {
	Ended    string `json:"ended,omitempty"`          // why it ended: "closed", "idle", "lifetime", "paused", "failed", "server"
	By       string `json:"ended_by,omitempty"`       // interface through which it was closed, such as "command line"
	User     string `json:"ended_user,omitempty"`     // user who closed it
	Identity string `json:"ended_identity,omitempty"` // identity that closed it over HTTP
}

// Restart records that a session's interpreter was lost and replaced.
type Restart struct {
	Time time.Time `json:"time"`
	Why  string    `json:"why"`
}

// State holds the variables, files, environment and usage of a session.
type State struct {
	Info
	Variables []kernel.Variable     `json:"variables"`
	Files     []File                `json:"files"`
	Env       []string              `json:"env"` // NAME=VALUE, with secrets masked
	Usage     pipeline.CurrentUsage `json:"usage"`
	Note      string                `json:"note,omitempty"` // why something is missing, for example because a cell is still running
}

// File is one file of a session's workspace.
type File struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size"` // bytes
	Changed time.Time `json:"changed"`
}
