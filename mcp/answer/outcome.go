package answer

import (
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// KindOfFile returns a MIME type without the charset, which is UTF-8 for all text here.
func KindOfFile(mime string) string { return strings.TrimSuffix(mime, "; charset=utf-8") }

// RunFacts is the structured content about a run.
type RunFacts struct {
	Common
	Outcome
}

// Outcome is the result of a run, in the field order of the wire.
type Outcome struct {
	RunIdentity
	runEnd
	runOutput
	runProducts
	runContainment
	runUsage
	Receipt  string   `json:"receipt_sha256,omitempty" about:"The SHA-256 of its signed receipt, which get_artifacts returns as receipt.intoto.json."`
	Hints    []string `json:"hints,omitempty" about:"What to do differently."`
	Warnings []string `json:"warnings,omitempty" about:"What was not as it should be."`
}

// RunIdentity identifies a run.
type RunIdentity struct {
	RequestID string        `json:"request_id,omitempty" about:"The run's id: get_artifacts, inspect_state and audit_execution take it."`
	State     string        `json:"state,omitempty" about:"done, waiting for the results of tool_calls, or running for a run in the background."`
	ToolCalls []PendingCall `json:"tool_calls,omitempty" about:"Calls of the session's tools that wait for results: carry them out, and call execute_code with request_id and tool_results."`
	Namespace string        `json:"namespace,omitempty" about:"The namespace that it belongs to."`
	SessionID string        `json:"session_id,omitempty" about:"The session that it ran in."`
	Language  string        `json:"language,omitempty" about:"The language of the code."`
	Backend   string        `json:"backend,omitempty" about:"What contained it."`
	Profile   string        `json:"profile,omitempty" about:"The containment profile."`
}

// runEnd is the exit of a program.
type runEnd struct {
	Ended     string   `json:"ended,omitempty" about:"How it ended: ok, exit, signal, timeout, oom, limit, refused or cancelled."`
	ExitCode  *int     `json:"exit_code,omitempty" about:"The exit code; 0 is success."`
	Signal    string   `json:"signal,omitempty" about:"The signal that killed it."`
	Limit     string   `json:"limit,omitempty" about:"The limit that ended it."`
	LimitsHit []string `json:"limits_hit,omitempty" about:"Limits that it ran into."`
}

// runOutput is the output of a program.
type runOutput struct {
	Stdout      string `json:"stdout,omitempty" about:"Its standard output, or head and tail of a long one."`
	Stderr      string `json:"stderr,omitempty" about:"Its standard error, or head and tail of a long one."`
	StdoutBytes int64  `json:"stdout_bytes" about:"Bytes that it wrote to standard output."`
	StderrBytes int64  `json:"stderr_bytes" about:"Bytes that it wrote to standard error."`
	StdoutURI   string `json:"stdout_uri,omitempty" about:"The resource with the whole standard output, where it is not all shown."`
	StderrURI   string `json:"stderr_uri,omitempty" about:"The resource with the whole standard error, where it is not all shown."`
	StdoutLost  int64  `json:"stdout_lost,omitempty" about:"Bytes of standard output beyond max_output_bytes, which are gone."`
	StderrLost  int64  `json:"stderr_lost,omitempty" about:"Bytes of standard error beyond max_output_bytes, which are gone."`
}

// runProducts are the results of a run besides its output.
type runProducts struct {
	Value        *display           `json:"value,omitempty" about:"The value of the last expression, in a session or in Python."`
	Displays     []display          `json:"displays,omitempty" about:"What the code displayed: images, tables."`
	ProgramError *programError      `json:"program_error,omitempty" about:"The error that ended the code, in a session."`
	StateLost    string             `json:"state_lost,omitempty" about:"Why the session's variables are gone."`
	Packages     []packages.Package `json:"packages,omitempty" about:"What was installed."`
	Artifacts    []ArtifactFacts    `json:"artifacts,omitempty" about:"Files that it left in its working directory."`
}

// runContainment lists the hosts that a run tried to reach, and the layers that contained it.
type runContainment struct {
	Egress     []EgressDecision `json:"egress,omitempty" about:"Hosts that it tried to reach, each once."`
	EgressMore int              `json:"egress_more,omitempty" about:"How many more hosts than these it tried to reach; audit_execution lists them."`
	Layers     []string         `json:"layers,omitempty" about:"Layers of containment that held it."`
	Missing    []string         `json:"missing_layers,omitempty" about:"Layers that did not hold it."`
}

// runUsage is the resource use of a run.
type runUsage struct {
	WallMS     float64 `json:"wall_ms" about:"Milliseconds that the program took."`
	CPUMS      float64 `json:"cpu_ms" about:"Milliseconds of CPU time, of all its processes."`
	TotalMS    float64 `json:"total_ms" about:"Milliseconds from request to result."`
	QueueMS    float64 `json:"queue_ms" about:"Milliseconds that it waited for its turn."`
	Warm       bool    `json:"warm,omitempty" about:"True if a sandbox stood ready for it, outside of sessions."`
	Cold       string  `json:"cold,omitempty" about:"Why none did, where sandboxes are kept ready."`
	PeakMemory int64   `json:"peak_memory_bytes" about:"The most memory that it had at once."`
}

type display struct {
	Text  string   `json:"text" about:"It as text." required:"true"`
	HTML  string   `json:"html,omitempty" about:"It as HTML, if that is not too long."`
	JSON  string   `json:"json,omitempty" about:"It as JSON, if that is not too long."`
	Types []string `json:"types" about:"The MIME types that it has; images are in content."`
}

type programError struct {
	Type      string `json:"type" about:"The error's type, such as ValueError."`
	Message   string `json:"message" about:"What it says."`
	Traceback string `json:"traceback" about:"Where it happened."`
}

// ArtifactFacts describe an artifact.
type ArtifactFacts struct {
	Name     string `json:"name" about:"The file's name, relative to the working directory."`
	Size     int64  `json:"size" about:"Its bytes."`
	SHA256   string `json:"sha256" about:"Its SHA-256."`
	MIME     string `json:"mime" about:"Its type."`
	URI      string `json:"uri,omitempty" about:"The resource to read it by."`
	Withheld string `json:"withheld,omitempty" about:"Why it is not handed out."`
}

// FactsOfFile describes an artifact, with its URI if it is stored.
func FactsOfFile(run string, a signer.Artifact, stored bool) ArtifactFacts {
	f := ArtifactFacts{Name: safetext.Model(a.Name), Size: a.Size, SHA256: a.SHA256, MIME: a.MIME, Withheld: a.Withheld}
	if stored && a.Withheld == "" {
		f.URI = FileURI(run, a.Name)
	}
	return f
}

// String returns the facts as one line.
func (f ArtifactFacts) String() string {
	if f.Withheld != "" {
		return fmt.Sprintf("%s, %s, withheld: %s", f.Name, Size(f.Size), f.Withheld)
	}
	return fmt.Sprintf("%s, %s, %s", f.Name, Size(f.Size), KindOfFile(f.MIME))
}

// EgressDecision sums up the connections to one host.
type EgressDecision struct {
	Name     string `json:"name" about:"The host."`
	Port     int    `json:"port" about:"The port; 0 where only its name was looked up."`
	Allowed  bool   `json:"allowed" about:"Whether it may be reached."`
	Failed   bool   `json:"failed,omitempty" about:"It may be reached, and no connection came about."`
	Reason   string `json:"reason" about:"Why."`
	Ask      string `json:"ask,omitempty" about:"What request_egress is to ask for, if a person may allow it."`
	Count    int64  `json:"count" about:"How often: connections, or look-ups where port is 0."`
	Sent     int64  `json:"sent" about:"Bytes sent to it."`
	Received int64  `json:"received" about:"Bytes received from it."`
}

// PendingCall is a tool call that waits for its result.
type PendingCall struct {
	ID        string `json:"id" about:"The call's id."`
	Name      string `json:"name" about:"The tool."`
	Arguments string `json:"arguments" about:"Its arguments, an object as JSON."`
}
