package signer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"iter"
)

// ChangeSet describes the changes that a run made to its view of a directory of the host.
type ChangeSet struct {
	Directory string       `json:"directory"` // absolute
	SHA256    string       `json:"sha256"`    // of all changes: the JSON of each, as it stands in Changes, and a newline
	Changes   []PathChange `json:"changes"`   // the first 1,000, with at most 64 KiB of paths
	Unlisted  int          `json:"unlisted,omitempty"`
}

// PathChange describes one path of a ChangeSet, relative to its directory.
type PathChange struct {
	Path       string    `json:"path"`
	PathBase64 string    `json:"path_base64,omitempty"` // of a path that is not UTF-8, which Path shows with escapes
	Before     PathState `json:"before"`
	After      PathState `json:"after"`
	Held       bool      `json:"held,omitempty"`    // it is applied only where a person names it
	Refused    bool      `json:"refused,omitempty"` // it is never applied
}

// PathState describes the file, directory or link at a path.
type PathState struct {
	Kind   string `json:"kind,omitempty"` // file, directory, link or other; "" if nothing has the path
	Mode   uint32 `json:"mode,omitempty"` // permission bits
	Size   int64  `json:"size,omitempty"` // bytes of a file
	SHA256 string `json:"sha256,omitempty"`
	Target string `json:"target,omitempty"` // of a link
}

// Name returns the path as the file system has it.
func (c PathChange) Name() string {
	if b, err := base64.StdEncoding.DecodeString(c.PathBase64); err == nil && c.PathBase64 != "" {
		return string(b)
	}
	return c.Path
}

// NewPathChange returns the change of a path of any bytes.
func NewPathChange(path string, before, after PathState) PathChange {
	c := PathChange{Path: path, Before: before, After: after}
	if s := newSubject(path, ""); s.Annotations != nil {
		c.Path, c.PathBase64 = s.Name, s.Annotations.NameBase64
	}
	return c
}

// NewChangeSet returns the description of all changes to a directory.
func NewChangeSet(directory string, all iter.Seq[PathChange]) (*ChangeSet, error) {
	s, h, names := &ChangeSet{Directory: directory, Changes: []PathChange{}}, sha256.New(), 0
	lines := json.NewEncoder(h)
	for c := range all {
		if err := lines.Encode(c); err != nil {
			return nil, err
		}
		if names += len(c.Path); names > maxNames || len(s.Changes) == maxNamed {
			s.Unlisted++
			continue
		}
		s.Changes = append(s.Changes, c)
	}
	s.SHA256 = hex.EncodeToString(h.Sum(nil))
	return s, nil
}
