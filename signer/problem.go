package signer

import "fmt"

// Kinds of problems, in the order in which they are looked for.
const (
	BadEnvelope    = "envelope"     // it can't be read
	BadPayloadType = "payload type" // it holds something else
	BadKey         = "key"          // nobody who is known signed it
	BadSignature   = "signature"    // it claims a known signer, who did not sign it
	BadStatement   = "statement"    // it is of another kind, or says what can't be
	BadLog         = "log"          // the log has no such row, or another one
	BadList        = "list"         // a line of SHA256SUMS can't be read
	BadPath        = "path"         // a name leads out of the directory
	Missing        = "missing"      // a file is not there
	Unreadable     = "unreadable"   // what is there is no file, or could not be read
	Changed        = "changed"      // a file has another hash
	Extra          = "extra"        // a file is there that nothing vouches for
)

// Problem is a mismatch.
type Problem struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"` // of the file; bytes that are no UTF-8 are written as \xff
	Why  string `json:"why"`
	Want string `json:"want,omitempty"` // what was promised, where there are two to compare
	Got  string `json:"got,omitempty"`
}

// String returns the problem in words. Names are not escaped for terminals.
func (p Problem) String() string {
	text := p.Why
	if p.Name != "" {
		text = fmt.Sprintf("%s: %s", p.Name, p.Why)
	}
	if p.Want != "" {
		text += fmt.Sprintf(": it should be %s, and is %s", p.Want, p.Got)
	}
	return p.Kind + ": " + text
}

func newProblems(kind, format string, args ...any) []Problem {
	return []Problem{{Kind: kind, Why: fmt.Sprintf(format, args...)}}
}
