// Package launch is the process that a command on the host is a child of. When the command has ended, or whoever
// asked for it has gone, it kills all that the command has left, and ends only when that is gone.
//
// It is the program itself under another name: importing it makes that so. On Linux it is the reaper of its
// descendants (PR_SET_CHILD_SUBREAPER): one that leaves its session and its parents is still ours. No descendant gains
// rights by a set-user-id program (PR_SET_NO_NEW_PRIVS), so that none can be out of our reach.
//
// What it does not stop: a command that has a service start something (systemd, cron, a container engine), and, where
// it is in no cgroup, one that kills this process, which it can as the same user; it dies along, by a signal of the
// kernel's, but what it has started need not.
package launch

// Descriptors of the process besides those of the command.
const (
	Order     = 3 // an Order as JSON on one line; when it ends, so does the command
	Answer    = 4 // Reports as JSON, one on each line
	FirstJoin = 5 // the first of those that Task.Join and Task.Leave count
)

// Task is a command to run.
type Task struct {
	Path      string   `json:"path"`
	Args      []string `json:"args"` // the name that the program is called by is the first
	Env       []string `json:"env"`
	Directory string   `json:"directory"` // a real path: it is refused if it turns out to be another's
	Bounds
	Join  int  `json:"join,omitempty"`  // number of descriptors from FirstJoin on by which the command enters its cgroup: files that take "0", or a directory
	Leave int  `json:"leave,omitempty"` // number of descriptors after those by which this process leaves it
	V2    bool `json:"v2,omitempty"`    // the descriptor to join by is a directory
}

// Bounds are of a command and all that it starts. Without a cgroup that keeps them they are kept here: by looking, and
// by what the kernel has for each process. A 0 is no bound.
type Bounds struct {
	RAM       int64   `json:"ram,omitempty"` // bytes
	Processes int     `json:"processes,omitempty"`
	CPU       float64 `json:"cpu,omitempty"` // cores
}

// Report is told of once when the command has begun, by its PID, and once when all is over.
type Report struct {
	PID    int    `json:"pid,omitempty"`
	Failed string `json:"failed,omitempty"` // why it did not begin
	Over   bool   `json:"over,omitempty"`
	Exit   int    `json:"exit,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Killed int    `json:"killed,omitempty"` // processes that it had left
	Limit  string `json:"limit,omitempty"`  // "ram" or "processes": it was killed for that
	CPU    int64  `json:"cpu,omitempty"`    // microseconds
	Memory int64  `json:"memory,omitempty"` // bytes, of the largest of its processes
}
