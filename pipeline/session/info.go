// Package session keeps sandboxes whose interpreter stays: variables, imports, files and
// background threads live from one request to the next.
//
// The effects are New, Change and End (new), Pause and Snapshot, which keep the files of a home directory (pause),
// NewContext and EndContext (contexts), SetNetwork, NewLimits, and Bridge, which carries a value from one session to
// another. Each finds its session in the manager, and acts on it under its lock: one cell at a time in each interpreter
// (guard, line), and nothing of it once it ends. The manager ends sessions that nobody uses, or whose time is up, and
// starts their interpreters anew when they die (interpreter, restart).
//
// A file calls what stands in those behind it, in this order: limits, inspect, bridge, contexts, new, pause, agent,
// error, info, line, network, restart, guests, interpreter, guard, state, manager, session, tools.
package session

import (
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Info describes a session.
type Info struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Language  string    `json:"language"` // of its first interpreter, or what a bare session shows
	Backend   string    `json:"backend"`
	Profile   string    `json:"profile"`
	State     string    `json:"state"` // "idle", "busy" or "dead"
	Created   time.Time `json:"created"`
	Used      time.Time `json:"last_used"`
	Idle      float64   `json:"idle_seconds"`     // after which it is closed when nobody uses it
	Lifetime  float64   `json:"lifetime_seconds"` // after which it is closed in any case
	Cells     int       `json:"cells"`            // that were run
	Restarts  []Restart `json:"restarts,omitempty"`
	Closing
	Owner  string          `json:"owner,omitempty"` // who made it, over HTTP
	Late   string          `json:"late,omitempty"`  // of one that was just ended: the audit log can't be written, and has this later
	Pause  bool            `json:"pause,omitempty"` // its files are kept when its lifetime is up
	Bare   bool            `json:"bare,omitempty"`  // it has no first interpreter
	Home   string          `json:"home,omitempty"`  // its home directory, where that is not the workspace
	Limits pipeline.Limits `json:"limits"`
	Layers []string        `json:"layers"` // that hold it

	Template string            `json:"template,omitempty"` // what its client has called for
	Metadata map[string]string `json:"metadata,omitempty"` // what its client calls it
	Allow    []string          `json:"allow,omitempty"`    // names that it may reach, if it was given some
	Tools    []string          `json:"tools,omitempty"`    // functions of its client that its code can call
}

// Closing is how a session ended.
type Closing struct {
	Ended    string `json:"ended,omitempty"`          // why it is dead: "closed", "idle", "lifetime", "paused", "failed", "server"
	By       string `json:"ended_by,omitempty"`       // the way in which somebody closed it, such as "command line"
	User     string `json:"ended_user,omitempty"`     // and who that was
	Identity string `json:"ended_identity,omitempty"` // or who that was over HTTP
}

// Restart is a moment at which a session's interpreter was lost and a new one started.
type Restart struct {
	Time time.Time `json:"time"`
	Why  string    `json:"why"`
}

// State holds the variables, files, environment and usage of a session.
type State struct {
	Info
	Variables []kernel.Variable     `json:"variables"`
	Files     []File                `json:"files"`
	Env       []string              `json:"env"` // NAME=VALUE as cells were given them, secrets masked
	Usage     pipeline.CurrentUsage `json:"usage"`
	Note      string                `json:"note,omitempty"` // why something is missing, such as a cell that is still running
}

// File is one file of a session's workspace.
type File struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size"` // bytes
	Changed time.Time `json:"changed"`
}
