// Package guest is the agent inside a sandbox: it gives the server access to the sandbox's files, directory changes
// and ports.
//
// The agent is this program itself, executed as a process of the sandbox like any other (backends.GuestPath), and
// speaks HTTP/2 on its private channel. So each access has the sandbox's own rights and layers: no link, rename or
// mount of a program can lead the server to a file of the host, because the server opens none. A program may end
// the agent, and the server starts it again; a program can't trace it. The server checks and bounds the agent's
// answers like a program's own output.
package guest

import (
	"fmt"
	"time"
)

// Argument is the sole argument that makes this program the agent.
const Argument = "guest"

// Kinds of an entry.
const (
	File      = "file"
	Directory = "dir"
	Symlink   = "symlink" // with a missing target, or in a loop
	Other     = "other"   // socket, device or FIFO
)

// Entry is a file or a directory of the sandbox. In names that are not UTF-8, U+FFFD replaces the invalid bytes.
type Entry struct {
	Name, Path string
	Kind       string // of a symbolic link's target
	Size       int64  // bytes
	Mode       uint32 // permission bits of a link's target
	Text       string // type and permissions as "-rw-r--r--"
	Owner      string // user name, or number
	Group      string
	Modified   time.Time
	Target     string            `json:",omitempty"` // of a symbolic link; "" for others
	Metadata   map[string]string `json:",omitempty"` // of an upload, in extended attributes
}

// Operations of an event.
const (
	Created = "create"
	Written = "write"
	Removed = "remove"
	Renamed = "rename" // to another name
	Chmod   = "chmod"
)

// Event is a change in a watched directory.
type Event struct {
	Name  string // relative to the directory
	Op    string
	Entry *Entry `json:",omitempty"` // if Watch.Entries is set and the file exists
}

// Reasons of an [Error].
const (
	NotFound     = "not found"
	Exists       = "exists"
	NotDirectory = "not a directory"
	IsDirectory  = "is a directory"
	NoSpace      = "no space"
	Denied       = "denied"
	Invalid      = "invalid"
	Failed       = "failed"
	TooMany      = "too many"
)

// Error is the agent's reason for a failed operation.
type Error struct {
	Reason  string
	Message string
}

func (e *Error) Error() string { return e.Message }

func errorf(reason, format string, args ...any) *Error {
	return &Error{reason, fmt.Sprintf(format, args...)}
}

// FileWrite describes a file to write.
type FileWrite struct {
	Path     string
	Mode     uint32 // permission bits of a new file; 0 is 0644
	Metadata map[string]string
	// Whole writes a new file and renames it over the old one once it is complete. Otherwise the file itself is
	// written, through links, as a program would.
	Whole bool
}

// Bounds of one answer.
const (
	maxEntries  = 50_000    // in a list
	maxList     = 32 << 20  // bytes of a list
	maxLine     = 256 << 10 // bytes of an event, and of one file's description
	maxQuery    = 60 << 10  // bytes of a request's encoded arguments; with the other headers they stay below maxHeader
	maxHeader   = 64 << 10
	maxWatches  = 4096 // directories of one recursive watch
	attribute   = "user.e2b."
	chunk       = 64 << 10
	maxMetadata = 4 << 10 // bytes of all metadata of a file
)

// CheckMetadata refuses metadata that can't be stored with a file.
func CheckMetadata(m map[string]string) error {
	size := 0
	for k, v := range m {
		size += len(attribute) + len(k) + len(v)
		if k == "" || len(k) > 255-len(attribute) || !isPrintable(k) || !isPrintable(v) {
			return errorf(Invalid, "metadata %.40q is not printable ASCII, or its key is empty or too long", k)
		}
	}
	if size > maxMetadata {
		return errorf(Invalid, "the metadata has %d bytes, more than %d", size, maxMetadata)
	}
	return nil
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
