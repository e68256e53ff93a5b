package pipeline

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Outcome is the result of one request. All of its text is free of the run's secrets: scrub removes them from each
// field whose tag does not say otherwise.
type Outcome struct {
	ID        string `json:"id" redact:"-"`
	Namespace string `json:"namespace" redact:"-"`
	Language  string `json:"language"`
	Name      string `json:"name"`
	Backend   string `json:"backend" redact:"-"`
	Profile   string `json:"profile" redact:"-"`
	Session   string `json:"session,omitempty"`

	backends.End `redact:"-"`
	// Interrupted is the signal by which the caller asked the program to end, SIGINT or SIGTERM: see Stop.
	Interrupted string `json:"interrupted,omitempty" redact:"-"`

	Hit     []string `json:"hit,omitempty"` // limits that it ran into
	Refused *Error   `json:"refused,omitempty"`

	Output
	Displayed
	Packages []packages.Package `json:"packages,omitempty"` // what was installed

	signer.Manifest
	// ArtifactsFailed says why artifacts could not be read or saved. The run itself stands.
	ArtifactsFailed string `json:"artifacts_failed,omitempty"`

	Proposed

	Egress  []egress.Record  `json:"egress"`
	Layers  []backends.Layer `json:"layers"`
	Timings Timings          `json:"timings"`
	Usage

	// Receipt is a DSSE envelope that says all this, signed; see signer.Receipt.
	Receipt json.RawMessage `json:"receipt,omitempty" redact:"-"`

	Hints    []Remedy `json:"hints,omitempty"`
	Warnings []Remedy `json:"warnings,omitempty"`

	late bool // see LateRow
}

// Proposed are the changes to a directory of the host, which a person may apply.
type Proposed struct {
	Changes *changes.Set `json:"changes,omitempty"` // without its entries; nil if nothing changed
	// ChangesFailed says why changes could not be stored.
	ChangesFailed string `json:"changes_failed,omitempty"`
}

// Output is what a program wrote, as far as it is kept.
type Output struct {
	Stdout    string `json:"stdout" redact:"-"`
	Stderr    string `json:"stderr" redact:"-"`
	StdoutCut int64  `json:"stdout_cut"` // bytes that are missing at the end
	StderrCut int64  `json:"stderr_cut"`
}

// Displayed is what code led to beside its output: see Request.Show.
type Displayed struct {
	Value     kernel.Bundle   `json:"value,omitempty" redact:"cut"`    // of the last expression
	Displays  []kernel.Bundle `json:"displays,omitempty" redact:"cut"` // images, tables
	Error     *kernel.Error   `json:"error,omitempty"`                 // that ended a session's code
	StateLost string          `json:"state_lost,omitempty"`            // why a session's variables are gone
}

// Usage is what a program took.
type Usage struct {
	WallMS     float64 `json:"wall_ms"`        // of the program alone
	CPUMS      float64 `json:"cpu_ms"`         // user and system, of all of its processes
	PeakMemory int64   `json:"peak_memory"`    // bytes
	Warm       bool    `json:"warm,omitempty"` // what ran it stood ready; never of a session's code
	Cold       string  `json:"cold,omitempty"` // why not, where things are kept ready: "PYTHONPATH is read when Python starts"
}

// Timings are the stages of a run, in microseconds. Start is the sandbox, with what is copied into
// it; the first half of Audit happens at the same time.
type Timings struct {
	Validate int64 `json:"validate"`
	Queue    int64 `json:"queue"`
	Vault    int64 `json:"vault"`
	Egress   int64 `json:"egress"`
	Start    int64 `json:"start"`
	Exec     int64 `json:"exec"`
	Sign     int64 `json:"sign"`
	Audit    int64 `json:"audit"`
	Total    int64 `json:"total"`
}

// MarshalJSON adds stdout_base64 and stderr_base64 where the output is not UTF-8, which JSON can't
// hold without changing it.
func (r Outcome) MarshalJSON() ([]byte, error) {
	type result Outcome
	out := struct {
		result
		StdoutRaw []byte `json:"stdout_base64,omitempty"`
		StderrRaw []byte `json:"stderr_base64,omitempty"`
	}{result: result(r)}
	if !utf8.ValidString(r.Stdout) {
		out.StdoutRaw = []byte(r.Stdout)
	}
	if !utf8.ValidString(r.Stderr) {
		out.StderrRaw = []byte(r.Stderr)
	}
	return json.Marshal(out)
}

// AddProgramResult adds how a program ended and what it took.
func (r *Outcome) AddProgramResult(out backends.Result) {
	r.End, r.Hit = out.End, out.Hit
	r.Usage = Usage{Milliseconds(out.Wall), Milliseconds(out.CPU), out.PeakMemory, out.Warm, out.Cold}
	r.Layers = append(r.Layers, out.Contained.Layers...)
}

// LayersInForce returns the names of the layers that held.
func (r Outcome) LayersInForce() []string {
	return backends.Containment{Layers: r.Layers}.InForce()
}

// Milliseconds returns d in milliseconds, exact to a microsecond.
func Milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}

// LateRowWarning says that what was asked for is done, and that the audit log has no row of it yet; "" is that it has.
func (r Outcome) LateRowWarning() string {
	if r.late {
		return audit.OwedText
	}
	return ""
}
