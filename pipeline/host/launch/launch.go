// Package launch is the parent process of a command on the host. When the command has ended, or its caller has gone, it
// kills all remaining descendants of the command, and exits only when they are gone.
//
// It is this program under another name: importing the package makes that work. On Linux it is the reaper of its
// descendants (PR_SET_CHILD_SUBREAPER): one that leaves its session and its parents is still its child. No descendant
// gains rights by a set-user-id program (PR_SET_NO_NEW_PRIVS), so that it can kill all of them.
//
// It does not stop a command that makes a service start something (systemd, cron, a container engine), nor, without a
// cgroup, one that kills this process, which it can as the same user; the kernel then kills the command, but not its
// descendants.
package launch

// Descriptors of the process in addition to the command's.
const (
	Order     = 3 // a Task as JSON on one line; its end ends the command
	Answer    = 4 // Reports as JSON, one per line
	FirstJoin = 5 // first descriptor of Task.Join and Task.Leave
)

// Task is a command to run.
type Task struct {
	Path      string   `json:"path"`
	Args      []string `json:"args"` // the first is the name of the program
	Env       []string `json:"env"`
	Directory string   `json:"directory"` // a real path: refused if it was replaced by a link
	Bounds
	// number of descriptors from FirstJoin on with which the command enters its cgroup: files to write "0" to, or a
	// directory
	Join  int  `json:"join,omitempty"`
	Leave int  `json:"leave,omitempty"` // number of further descriptors with which this process leaves it
	V2    bool `json:"v2,omitempty"`    // the descriptor is a directory
}

// Bounds are limits of a command and its descendants. Without a cgroup that enforces them, this process does: by
// sampling, and by the kernel's limits per process. 0 is no bound.
type Bounds struct {
	RAM       int64   `json:"ram,omitempty"` // bytes
	Processes int     `json:"processes,omitempty"`
	CPU       float64 `json:"cpu,omitempty"` // cores
}

// Report is sent once when the command has begun, with its PID, and once at its end.
type Report struct {
	PID    int    `json:"pid,omitempty"`
	Failed string `json:"failed,omitempty"` // error of the start
	Over   bool   `json:"over,omitempty"`
	Exit   int    `json:"exit,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Killed int    `json:"killed,omitempty"` // remaining processes, which were killed
	Limit  string `json:"limit,omitempty"`  // "ram" or "processes": limit for which it was killed
	CPU    int64  `json:"cpu,omitempty"`    // microseconds
	Memory int64  `json:"memory,omitempty"` // bytes of its largest process
}
