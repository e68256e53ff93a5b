package signer

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Types of signed statements.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	ReceiptType   = "https://github.com/sandboxmcp/sandboxmcp/receipt/v1"
	RotationType  = "https://github.com/sandboxmcp/sandboxmcp/key-rotation/v1"

	RevocationType = "https://github.com/sandboxmcp/sandboxmcp/key-revocation/v1"
)

// Receipt describes a run and its containment. Hashes are SHA-256 in lower-case hex. Code and output are in it only by
// hash, values of secrets not at all.
type Receipt struct {
	Run       string `json:"run"`
	Namespace string `json:"namespace"`
	Session   string `json:"session,omitempty"`
	Language  string `json:"language"`
	Name      string `json:"name"` // of the script

	CodeSHA256   string `json:"code_sha256"`
	PolicySHA256 string `json:"policy_sha256"`
	InputsSHA256 string `json:"inputs_sha256,omitempty"`

	Backend       string    `json:"backend"`
	Profile       string    `json:"profile"`
	Layers        []string  `json:"layers"` // in force
	MissingLayers []string  `json:"missing_layers"`
	Secrets       []string  `json:"secrets"` // names
	Egress        []Contact `json:"egress"`
	Packages      []string  `json:"packages,omitempty"`

	Changes *ChangeSet `json:"change_set,omitempty"` // of a directory of the host

	backends.End
	Began    time.Time `json:"began"` // both in UTC
	Finished time.Time `json:"finished"`

	Output

	// EgressUnlisted is the number of names that Egress does not list.
	EgressUnlisted int `json:"egress_unlisted,omitempty"`

	Unlisted

	Version string `json:"version"` // of sandboxmcp

	// Artifacts become the subjects of the statement, without withheld ones.
	Artifacts []Artifact `json:"-"`
}

// Output describes the output in the result: redacted, and truncated unless all of it was streamed. StdoutCut and
// StderrCut are the numbers of bytes cut off, which no hash covers.
type Output struct {
	StdoutSHA256 string `json:"stdout_sha256"`
	StdoutBytes  int64  `json:"stdout_bytes"`
	StdoutCut    int64  `json:"stdout_cut,omitempty"`
	StderrSHA256 string `json:"stderr_sha256"`
	StderrBytes  int64  `json:"stderr_bytes"`
	StderrCut    int64  `json:"stderr_cut,omitempty"`

	// ValueSHA256 is the hash of the results of a session's code, as the JSON object
	// {"displays": ..., "error": ..., "value": ...} of the result, redacted and truncated. "" is none.
	ValueSHA256 string `json:"value_sha256,omitempty"`
}

// Unlisted is set by Sign. ArtifactsWithheld are names, and WithheldUnlisted counts those beyond the limit.
// ArtifactsUnlisted counts the artifacts beyond the limit: Collect's SHA256SUMS, whose hash is ArtifactsSHA256, lists
// all that were not withheld.
type Unlisted struct {
	ArtifactsWithheld []string `json:"artifacts_withheld"`
	WithheldUnlisted  int      `json:"withheld_unlisted,omitempty"`
	ArtifactsSHA256   string   `json:"artifacts_sha256,omitempty"`
	ArtifactsUnlisted int      `json:"artifacts_unlisted,omitempty"`
}

// Contact is egress's decision about a name.
type Contact struct {
	Name     string `json:"name"`
	Port     int    `json:"port,omitempty"`
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason"`
	Count    int64  `json:"count"`    // connections
	Sent     int64  `json:"sent"`     // bytes to it
	Received int64  `json:"received"` // bytes from it
}

// statement is an in-toto Statement, version 1. Its fields are in the order of the specification, and its encoding is
// deterministic.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     any       `json:"predicate"`
}

// subject is a ResourceDescriptor. A name that is not UTF-8 is escaped for people, and exact in Annotations for
// programs.
type subject struct {
	Name        string       `json:"name"`
	Digest      digest       `json:"digest"`
	Annotations *annotations `json:"annotations,omitempty"`
}

type digest struct {
	SHA256 string `json:"sha256"`
}

type annotations struct {
	NameBase64 string `json:"name_base64"`
}

func newSubject(name, sum string) subject {
	s := subject{Name: name, Digest: digest{sum}}
	if !utf8.ValidString(name) {
		s.Name, s.Annotations = escapeInvalidUTF8(name), &annotations{base64.StdEncoding.EncodeToString([]byte(name))}
	}
	return s
}

// escapeInvalidUTF8 escapes the bytes of s that are not UTF-8 as \xff.
func escapeInvalidUTF8(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// Sign makes an envelope of the receipt. The result is deterministic.
func (r Receipt) Sign(k *Key) (Envelope, error) {
	if !isHash(r.CodeSHA256) {
		return Envelope{}, errors.New("a receipt needs the SHA-256 of the code")
	}
	r.normalize()
	var subjects []subject
	seen, names := map[string]bool{}, 0
	for i, a := range r.Artifacts {
		names += len(a.Name)
		named := names <= maxNames && i < maxNamed
		switch {
		case a.Withheld != "" && named:
			r.ArtifactsWithheld = append(r.ArtifactsWithheld, escapeInvalidUTF8(a.Name))
			continue
		case a.Withheld != "":
			r.WithheldUnlisted++
			continue
		case !isHash(a.SHA256) || seen[a.Name]:
			return Envelope{}, fmt.Errorf("artifact %q has no SHA-256, or is listed twice: this is a bug of ours", a.Name)
		case named:
			subjects = append(subjects, newSubject(a.Name, a.SHA256))
		default:
			r.ArtifactsUnlisted++
		}
		seen[a.Name] = true
	}
	if r.ArtifactsUnlisted > 0 {
		r.ArtifactsSHA256 = Manifest{Artifacts: r.Artifacts}.SumsSHA256()
	}
	if len(subjects) == 0 { // a statement needs a subject
		subjects = []subject{newSubject(codePrefix+r.CodeSHA256, r.CodeSHA256)}
	}
	return signStatement(statement{StatementType, subjects, ReceiptType, r}, k)
}

// Limits for the artifacts that a receipt names: a program must not make its receipt too large for the log.
const (
	maxNamed = 1000
	maxNames = 64 << 10 // bytes
)

// codePrefix starts the subject's name of a run without artifacts. A file of such a name has its own hash.
const codePrefix = "code:"

// normalize makes empty lists [] rather than null, times UTC, and clears the fields that Sign sets.
func (r *Receipt) normalize() {
	for _, list := range []*[]string{&r.Layers, &r.MissingLayers, &r.Secrets} {
		if *list == nil {
			*list = []string{}
		}
	}
	if r.Egress == nil {
		r.Egress = []Contact{}
	}
	r.Unlisted = Unlisted{ArtifactsWithheld: []string{}}
	r.Began, r.Finished = r.Began.UTC(), r.Finished.UTC()
}

// signStatement makes an envelope of a statement.
func signStatement(s statement, by ...*Key) (Envelope, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(s); err != nil {
		return Envelope{}, err
	}
	e := Envelope{PayloadType: PayloadType, Payload: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}
	for _, k := range by {
		sig, err := k.Sign(nil, dsse.PAE(PayloadType, e.Payload), crypto.Hash(0))
		if err != nil {
			return Envelope{}, fmt.Errorf("sign the receipt: %w", err)
		}
		e.Signatures = append(e.Signatures, Signature{k.ID(), sig})
	}
	return e, nil
}
