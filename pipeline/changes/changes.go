// Package changes stores the changes that programs made to a directory of the host until a person applies or drops
// them.
//
// A program works on a view of the directory; the directory itself stays as it is. [Store.Propose] compares the two and
// stores a [Set]: for each path its state before and after, with the content of both. [Store.Apply] puts the after
// states in place where the before states still are, and [Store.Undo] puts the before states back. After a kill at any
// moment, the next [Open] leaves either all of the change or none of it. No operation follows a link or touches
// anything outside of the directory.
//
// The package never applies set-user-ID bits, owners, devices, sockets, FIFOs, links that leave the directory, or files
// with a leased secret. Files that the host later runs by itself are held until a person names them: see package trap.
//
// Known holes: a file that the host removed while the program ran, and that the program changed, counts as added. A
// program of the host that has a replaced file open goes on writing to the old file. A replaced file loses its extended
// attributes.
//
// Its files stand in this order: open, undo, apply, recover, perform, propose, verify, patch, group, store, plan, run,
// stage, journal, compare, rename, mark, held, merge, lines, index, pack, tree, changes, quote.
package changes

import (
	"fmt"
	"strings"
	"time"
)

// Kinds of a path.
const (
	File      = "file"
	Directory = "directory"
	Link      = "link"
	Other     = "other" // a device, socket or FIFO
)

// State describes a path at one time. The zero value means that nothing exists there.
type State struct {
	Kind   string `json:"kind"`             // "": nothing exists
	Mode   uint32 `json:"mode,omitempty"`   // permission bits of a file or directory
	Size   int64  `json:"size,omitempty"`   // of a file, in bytes
	SHA256 string `json:"sha256,omitempty"` // of a file, in lower-case hex
	Target string `json:"target,omitempty"` // of a link
}

// Entry is one path of a set.
type Entry struct {
	Path          string    `json:"path"` // relative to the directory, slash separated; any bytes but NUL, see the JSON form in quote.go
	Before        State     `json:"before"`
	After         State     `json:"after"`
	Modified      time.Time `json:"modified,omitzero"`       // of the file after the program
	Held          string    `json:"held,omitempty"`          // why the path is applied only when it is named
	Refused       string    `json:"refused,omitempty"`       // why the path is never applied
	Mark          string    `json:"mark,omitempty"`          // a warning to the reviewer
	Stale         bool      `json:"stale,omitempty"`         // the host changed the path while the program ran
	Added         int       `json:"added_lines,omitempty"`   // lines
	Removed       int       `json:"removed_lines,omitempty"` // lines
	Binary        bool      `json:"binary,omitempty"`
	RenamedFrom   string    `json:"renamed_from,omitempty"` // a removed path with the same content
	Applied       bool      `json:"applied,omitempty"`
	Irrecoverable bool      `json:"irrecoverable,omitempty"` // its content before was too large to store, so its change can't be undone
}

// Status of a set.
const (
	StatusProposed = "proposed"
	StatusApplying = "applying" // an apply or undo is under way, or a kill or an error interrupted it
	StatusApplied  = "applied"  // all paths, or some of them
	StatusDropped  = "dropped"  // its content is deleted
	StatusUndone   = "undone"
)

// Set is the changes of one program to a directory.
type Set struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace,omitempty"`
	Session   string    `json:"session,omitempty"`
	Dir       string    `json:"dir"` // of the host, absolute
	Time      time.Time `json:"time"`
	Status    string    `json:"status"`
	Counts    Summary   `json:"summary"`
	Entries   []Entry   `json:"entries,omitempty"` // in the order of their paths, a directory before its content; Store.List leaves them out
}

// Summary counts the paths of a set that are not directories, and their changed lines.
type Summary struct {
	Changed      int `json:"changed"`
	Added        int `json:"added"`
	Removed      int `json:"removed"`
	Directories  int `json:"directories"` // added, removed or changed
	AddedLines   int `json:"added_lines"`
	RemovedLines int `json:"removed_lines"`
	Held         int `json:"held"`
	Refused      int `json:"refused"`
	Stale        int `json:"stale"`
}

// Summary returns the counts of the set.
func (s Set) Summary() Summary { return s.Counts }

func summarize(entries []Entry) (c Summary) {
	for _, e := range entries {
		switch {
		case e.Before.Kind != "" && e.After.Kind != "" && (e.Before.Kind == Directory) == (e.After.Kind == Directory) &&
			e.Before.Kind != Directory:
			c.Changed++
		case e.Before.Kind == "" && e.After.Kind != Directory, e.Before.Kind == Directory && e.After.Kind != Directory && e.After.Kind != "":
			c.Added++
		case e.After.Kind == "" && e.Before.Kind != Directory, e.After.Kind == Directory && e.Before.Kind != Directory && e.Before.Kind != "":
			c.Removed++
		default:
			c.Directories++
		}
		c.AddedLines += e.Added
		c.RemovedLines += e.Removed
		if e.Held != "" {
			c.Held++
		}
		if e.Refused != "" {
			c.Refused++
		}
		if e.Stale {
			c.Stale++
		}
	}
	return c
}

// String is for people: "3 changed, 1 added, 1 removed (+120 -14)".
func (c Summary) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{c.Changed, "changed"}, {c.Added, "added"}, {c.Removed, "removed"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("%d directories", c.Directories))
	}
	text := strings.Join(parts, ", ")
	if c.AddedLines+c.RemovedLines > 0 {
		text += fmt.Sprintf(" (+%d -%d)", c.AddedLines, c.RemovedLines)
	}
	if c.Held > 0 {
		text += fmt.Sprintf(", %d held back", c.Held)
	}
	if c.Refused > 0 {
		text += fmt.Sprintf(", %d refused", c.Refused)
	}
	return text
}

// Conflict is a path that can't be applied, and the reason.
type Conflict struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Conflicts is the error of an apply or undo that changed nothing because some paths are not in the expected state.
type Conflicts struct{ List []Conflict }

func (c *Conflicts) Error() string {
	const limit = 20
	var b strings.Builder
	plural := "s"
	if len(c.List) == 1 {
		plural = ""
	}
	fmt.Fprintf(&b, "nothing was changed, because of %d conflict%s:", len(c.List), plural)
	for i, x := range c.List {
		if i == limit {
			fmt.Fprintf(&b, "\n  and %d more", len(c.List)-limit)
			break
		}
		fmt.Fprintf(&b, "\n  %s %s", quoteName(x.Path), x.Why)
	}
	return b.String()
}

// describe returns a state as text for people: "a file of 12 bytes, mode 0644, SHA-256 1234".
func (s State) describe() string {
	switch s.Kind {
	case "":
		return "not there"
	case File:
		return fmt.Sprintf("a file of %d bytes, mode %#o, SHA-256 %s", s.Size, s.Mode, s.SHA256)
	case Directory:
		return fmt.Sprintf("a directory, mode %#o", s.Mode)
	case Link:
		return "a link to " + quoteName(s.Target)
	}
	return "a device, a socket or a FIFO"
}
