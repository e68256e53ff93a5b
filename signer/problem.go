package signer

import "fmt"

// Kinds of problems, in the order of the checks.
const (
	BadEnvelope    = "envelope"     // it can't be read
	BadPayloadType = "payload type" // it holds something else
	BadKey         = "key"          // no known key signed it
	BadSignature   = "signature"    // it names a known key that did not sign it
	BadStatement   = "statement"    // it is of another kind, or is invalid
	BadLog         = "log"          // the log has no such row, or another one
	BadList        = "list"         // a line of SHA256SUMS can't be read
	BadPath        = "path"         // a name leads out of the directory
	Missing        = "missing"      // a file is not there
	Unreadable     = "unreadable"   // it is not a file, or could not be read
	Changed        = "changed"      // a file has another hash
	Extra          = "extra"        // an unlisted file exists
)

// Problem is a mismatch.
type Problem struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"` // of the file; invalid UTF-8 is escaped as \xff
	Why  string `json:"why"`
	Want string `json:"want,omitempty"` // expected value of a comparison
	Got  string `json:"got,omitempty"`
}

// String returns a description. Names are not escaped for terminals.
func (p Problem) String() string {
	text := p.Why
	if p.Name != "" {
		text = fmt.Sprintf("%s: %s", p.Name, p.Why)
	}
	if p.Want != "" {
		text += fmt.Sprintf(": want %s, got %s", p.Want, p.Got)
	}
	return p.Kind + ": " + text
}

func newProblems(kind, format string, args ...any) []Problem {
	return []Problem{{Kind: kind, Why: fmt.Sprintf(format, args...)}}
}
