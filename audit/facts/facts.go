// Package facts parses the data of the rows of the audit log. Rows outlive the program that wrote them, and the owner
// of the file can write anything: so there are no errors, and a value of an unexpected type is left out.
package facts

import (
	"encoding/json"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// Facts are the data of a row of any kind. Facts that the row does not have are zero.
type Facts struct {
	Program
	Outcome
	Question

	Secrets   Names      `json:"secrets"`
	Hosts     Names      `json:"hosts"`
	Egress    []Decision `json:"egress"`           // the first decisions
	Decisions int64      `json:"egress_decisions"` // number of all decisions
	Artifacts int        `json:"artifacts"`
	Files     []File     `json:"artifact_list"`
	Packages  []Package  `json:"packages_installed"`

	// One decision of the gateway.
	Port   int   `json:"port"`
	Failed bool  `json:"failed"` // it was allowed, but the connection failed
	Bytes  int64 `json:"bytes"`
	Count  int64 `json:"count"`

	// Sessions.
	Why      string `json:"why"`
	Cells    int    `json:"cells"`
	Restarts int    `json:"restarts"`
	From     string `json:"from"`
	Key      string `json:"key"` // name of a bridged value, or id of a signing key
	Replaces string `json:"replaces"`

	// First and Last are row numbers of a deleted file of the log.
	First int64 `json:"first"`
	Last  int64 `json:"last"`

	Receipt string `json:"receipt_sha256"`
}

// Program describes the program of a run, or another subject of a row.
type Program struct {
	Name      string `json:"name"` // of a script, a host or a secret
	Names     Names  `json:"names"`
	Language  string `json:"language"`
	Command   Names  `json:"command"` // run instead of a script
	Tool      string `json:"tool"`    // used instead of a sandbox; its purpose is in What
	Policy    string `json:"policy_sha256"`
	Session   string `json:"session"`
	Code      string `json:"code_sha256"`
	CodeBytes int64  `json:"code_bytes"`
	Backend   string `json:"backend"`
	Profile   string `json:"profile"`
}

// Outcome is how a run ended.
type Outcome struct {
	Ended    string  `json:"ended"`
	ExitCode int     `json:"exit_code"`
	Signal   string  `json:"signal"`
	WallMS   float64 `json:"wall_ms"`
	CPUMS    float64 `json:"cpu_ms"`
	Peak     int64   `json:"peak_memory"` // bytes
	Limit    string  `json:"limit"`
	Hit      Names   `json:"hit"`
	Stage    string  `json:"stage"`
	Reason   string  `json:"reason"`
	Remedy   string  `json:"remedy"`
	Layer    string  `json:"layer"` // the missing layer
	Layers   Names   `json:"layers"`
	Missing  Names   `json:"missing_layers"`
}

// Question is a question to a person, and the answer.
type Question struct {
	Kind       string  `json:"kind"`
	What       string  `json:"what"`
	Run        string  `json:"run"`
	Client     string  `json:"client"`
	By         string  `json:"by"` // channel of the answer
	User       string  `json:"user"`
	Identity   string  `json:"identity"` // of the caller over HTTP
	Scope      string  `json:"scope"`
	Until      string  `json:"until"`
	Expires    string  `json:"expires"`
	ForSeconds float64 `json:"for_seconds"`
}

// Decision is the gateway's decision about a name during a run, and its count.
type Decision struct {
	Name     string `json:"name"`
	Port     int    `json:"port"`
	Allowed  bool   `json:"allowed"`
	Failed   bool   `json:"failed"`
	Reason   string `json:"reason"`
	Count    int64  `json:"count"`
	Sent     int64  `json:"sent"`
	Received int64  `json:"received"`
}

// File is an artifact.
type File struct {
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
	Withheld string `json:"withheld"`
}

// Package is an installed package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Hash    string `json:"hash"`
}

func (p Package) String() string {
	if p.Version == "" {
		return p.Name
	}
	return p.Name + " " + p.Version
}

// Names is a list of words, which rows may also have as objects with a name, or as a single word.
type Names []string

// UnmarshalJSON reads words, and objects that have a name.
func (n *Names) UnmarshalJSON(b []byte) error {
	*n = nil
	var all []json.RawMessage
	if json.Unmarshal(b, &all) != nil {
		all = []json.RawMessage{b}
	}
	for _, one := range all {
		var word string
		var object struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(one, &word) == nil && word != "" {
			*n = append(*n, word)
		} else if json.Unmarshal(one, &object) == nil && object.Name != "" {
			*n = append(*n, object.Name)
		}
	}
	return nil
}

// Parse returns the facts of r.
func Parse(r audit.Row) Facts {
	var f Facts
	_ = json.Unmarshal(r.Data, &f) // fields of a wrong type stay zero
	return f
}
