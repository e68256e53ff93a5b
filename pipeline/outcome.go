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

// Outcome is the result of one request. Its text contains no secrets: Scrub removes them from each field, as the
// redact tags say.
type Outcome struct {
	ID        string `json:"id" redact:"-"`
	Namespace string `json:"namespace" redact:"-"`
	Language  string `json:"language"`
	Name      string `json:"name"`
	Backend   string `json:"backend" redact:"-"`
	Profile   string `json:"profile" redact:"-"`
	Session   string `json:"session,omitempty"`

	backends.End `redact:"-"`
	// Interrupted is the signal with which the caller stopped the program, SIGINT or SIGTERM: see Stopper.
	Interrupted string `json:"interrupted,omitempty" redact:"-"`

	Hit     []string `json:"hit,omitempty"` // limits that it reached
	Refused *Error   `json:"refused,omitempty"`

	Output
	Displayed
	Packages []packages.Package `json:"packages,omitempty"` // installed packages

	signer.Manifest
	// ArtifactsFailed is the error of artifacts that could not be read or saved. The run itself is valid.
	ArtifactsFailed string `json:"artifacts_failed,omitempty"`

	Proposed

	Egress  []egress.Record  `json:"egress"`
	Layers  []backends.Layer `json:"layers"`
	Timings Timings          `json:"timings"`
	Usage

	// Receipt is a signed DSSE envelope about the result; see signer.Receipt.
	Receipt json.RawMessage `json:"receipt,omitempty" redact:"-"`

	Hints    []Remedy `json:"hints,omitempty"`
	Warnings []Remedy `json:"warnings,omitempty"`

	late bool // see LateRowWarning
}

// Proposed are changes to a directory of the host that a person may apply.
type Proposed struct {
	Changes *changes.Set `json:"changes,omitempty"` // without its entries; nil if nothing changed
	// ChangesFailed is the error of changes that could not be stored.
	ChangesFailed string `json:"changes_failed,omitempty"`
}

// Output is the stored output of a program.
type Output struct {
	Stdout    string `json:"stdout" redact:"-"`
	Stderr    string `json:"stderr" redact:"-"`
	StdoutCut int64  `json:"stdout_cut"` // bytes cut at the end
	StderrCut int64  `json:"stderr_cut"`
}

// Displayed holds the results of code other than its output: see Request.Show.
type Displayed struct {
	Value     kernel.Bundle   `json:"value,omitempty" redact:"cut"`    // of the last expression
	Displays  []kernel.Bundle `json:"displays,omitempty" redact:"cut"` // images, tables
	Error     *kernel.Error   `json:"error,omitempty"`                 // ended a session's code
	StateLost string          `json:"state_lost,omitempty"`            // why a session's variables are lost
}

// Usage is the resource use of a program.
type Usage struct {
	WallMS     float64 `json:"wall_ms"`        // of the program alone
	CPUMS      float64 `json:"cpu_ms"`         // user and system, of all of its processes
	PeakMemory int64   `json:"peak_memory"`    // bytes
	Warm       bool    `json:"warm,omitempty"` // it ran in a prestarted process; never set for a session's code
	Cold       string  `json:"cold,omitempty"` // why not, if processes are prestarted: "PYTHONPATH is read when Python starts"
}

// Timings are the durations of a run's stages, in microseconds. Start covers the sandbox and its input files; the
// first half of Audit overlaps it.
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

// MarshalJSON adds stdout_base64 and stderr_base64 for output that is not UTF-8, which JSON strings can't represent.
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

// AddProgramResult adds the end and the usage of a program.
func (r *Outcome) AddProgramResult(out backends.Result) {
	r.End, r.Hit = out.End, out.Hit
	r.Usage = Usage{Milliseconds(out.Wall), Milliseconds(out.CPU), out.PeakMemory, out.Warm, out.Cold}
	r.Layers = append(r.Layers, out.Contained.Layers...)
}

// LayersInForce returns the names of the layers in force.
func (r Outcome) LayersInForce() []string {
	return backends.Containment{Layers: r.Layers}.InForce()
}

// Milliseconds returns d in milliseconds, exact to a microsecond.
func Milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}

// LateRowWarning returns a warning if the effect is done but the audit log does not have its row yet, else "".
func (r Outcome) LateRowWarning() string {
	if r.late {
		return audit.OwedText
	}
	return ""
}
