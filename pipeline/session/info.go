// Package session keeps sandboxes whose interpreter stays: variables, imports, files and
// background threads live from one request to the next.
package session

import (
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
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
	Owner  string   `json:"owner,omitempty"` // who made it, over HTTP
	Late   string   `json:"late,omitempty"`  // of one that was just ended: the audit log can't be written, and has this later
	Pause  bool     `json:"pause,omitempty"` // its files are kept when its lifetime is up
	Bare   bool     `json:"bare,omitempty"`  // it has no first interpreter
	Home   string   `json:"home,omitempty"`  // its home directory, where that is not the workspace
	Limits Limits   `json:"limits"`
	Layers []string `json:"layers"` // that hold it

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

// Limits bound a session, in the units that people set them in. The about tags are descriptions in the schemas of
// tools.
type Limits struct {
	RAM       int64   `json:"max_ram_mb" about:"MB of memory for all processes together."`
	CPU       float64 `json:"max_cpu_cores" about:"Cores."`
	Wall      float64 `json:"timeout_seconds" about:"Seconds of one run or cell."`
	Processes int     `json:"max_processes" about:"Processes and threads."`
	Output    int64   `json:"max_output_bytes" about:"Bytes of stdout that are kept, and as many of stderr."`
	Disk      int64   `json:"max_disk_mb" about:"MB of /workspace, /tmp and /dev/shm together."`
}

// State holds the variables, files, environment and usage of a session.
type State struct {
	Info
	Variables []kernel.Variable `json:"variables"`
	Files     []File            `json:"files"`
	Env       []string          `json:"env"` // NAME=VALUE as cells were given them, secrets masked
	Usage     Usage             `json:"usage"`
	Note      string            `json:"note,omitempty"` // why something is missing, such as a cell that is still running
}

// File is one file of a session's workspace.
type File struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size"` // bytes
	Changed time.Time `json:"changed"`
}

// Usage is what a session uses now.
type Usage struct {
	MemoryBytes int64   `json:"memory_bytes" about:"Bytes of memory."`
	DiskBytes   int64   `json:"disk_bytes" about:"Bytes in /workspace, /tmp and /dev/shm."`
	CPUSeconds  float64 `json:"cpu_seconds" about:"Seconds of CPU time since it began."`
	Processes   int     `json:"processes" about:"Processes."`
}
