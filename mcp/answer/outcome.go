package answer

import (
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
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
	Warnings []string `json:"warnings,omitempty" about:"Problems that did not stop the run."`
}

// RunIdentity identifies a run.
type RunIdentity struct {
	RequestID string        `json:"request_id,omitempty" about:"The run's id, for get_artifacts, inspect_state and audit_execution."`
	State     string        `json:"state,omitempty" about:"done, waiting for the results of tool_calls, or running for a run in the background."`
	ToolCalls []PendingCall `json:"tool_calls,omitempty" about:"Calls of the session's tools that wait for results: run them, and call execute_code with request_id and tool_results."`
	Namespace string        `json:"namespace,omitempty" about:"Its namespace."`
	SessionID string        `json:"session_id,omitempty" about:"Its session."`
	Language  string        `json:"language,omitempty" about:"The language of the code."`
	Backend   string        `json:"backend,omitempty" about:"Its isolation backend."`
	Profile   string        `json:"profile,omitempty" about:"The containment profile."`
}

// runEnd is the exit of a program.
type runEnd struct {
	Ended     string   `json:"ended,omitempty" about:"How it ended: ok, exit, signal, timeout, oom, limit, refused or cancelled."`
	ExitCode  *int     `json:"exit_code,omitempty" about:"The exit code; 0 is success."`
	Signal    string   `json:"signal,omitempty" about:"The signal that killed it."`
	Limit     string   `json:"limit,omitempty" about:"The limit that ended it."`
	LimitsHit []string `json:"limits_hit,omitempty" about:"Limits that it reached."`
}

// runOutput is the output of a program.
type runOutput struct {
	Stdout      string `json:"stdout,omitempty" about:"Its standard output, or head and tail if it is long."`
	Stderr      string `json:"stderr,omitempty" about:"Its standard error, or head and tail if it is long."`
	StdoutBytes int64  `json:"stdout_bytes" about:"Bytes of its standard output."`
	StderrBytes int64  `json:"stderr_bytes" about:"Bytes of its standard error."`
	StdoutURI   string `json:"stdout_uri,omitempty" about:"The resource with the whole standard output, if stdout is shortened."`
	StderrURI   string `json:"stderr_uri,omitempty" about:"The resource with the whole standard error, if stderr is shortened."`
	StdoutLost  int64  `json:"stdout_lost,omitempty" about:"Bytes of standard output beyond max_output_bytes, which are lost."`
	StderrLost  int64  `json:"stderr_lost,omitempty" about:"Bytes of standard error beyond max_output_bytes, which are lost."`
}

// runProducts are the results of a run besides its output.
type runProducts struct {
	Value        *display           `json:"value,omitempty" about:"The value of the last expression, in a session or in Python."`
	Displays     []display          `json:"displays,omitempty" about:"Images and tables that the code displayed."`
	ProgramError *programError      `json:"program_error,omitempty" about:"The error that ended the code, in a session."`
	StateLost    string             `json:"state_lost,omitempty" about:"Why the session lost its variables."`
	Packages     []packages.Package `json:"packages,omitempty" about:"Installed packages."`
	Artifacts    []ArtifactFacts    `json:"artifacts,omitempty" about:"Files in its working directory at the end."`
	Changes      *ChangesFacts      `json:"changes,omitempty" about:"Its changes to the workspace of the host."`
}

// ChangesFacts describe a change set.
type ChangesFacts struct {
	ID      string `json:"id" about:"Its id, for request_host_access with kind changes, and as request_id for get_artifacts."`
	Status  string `json:"status" about:"proposed, applied, dropped or undone."`
	Summary string `json:"summary" about:"Counts of paths and lines."`
	Held    int    `json:"held_back" about:"Paths that are applied only if a person names them, since the host would run or obey them."`
	Refused int    `json:"refused" about:"Paths that are never applied, such as devices and files with a secret."`
}

// FactsOfChanges describes a change set, nil without one.
func FactsOfChanges(set *changes.Set) *ChangesFacts {
	if set == nil {
		return nil
	}
	return &ChangesFacts{set.ID, set.Status, set.Counts.String(), set.Counts.Held, set.Counts.Refused}
}

// String returns the facts as one line.
func (f ChangesFacts) String() string {
	return fmt.Sprintf("change set %s (%s): %s", f.ID, f.Status, f.Summary)
}

// runContainment lists the hosts that a run tried to reach, and the layers that contained it.
type runContainment struct {
	Egress     []EgressDecision `json:"egress,omitempty" about:"Hosts that it tried to reach."`
	EgressMore int              `json:"egress_more,omitempty" about:"Number of further hosts; audit_execution lists them."`
	Layers     []string         `json:"layers,omitempty" about:"Layers of containment in force."`
	Missing    []string         `json:"missing_layers,omitempty" about:"Layers that were not in force."`
}

// runUsage is the resource use of a run.
type runUsage struct {
	WallMS     float64 `json:"wall_ms" about:"Run time of the program in milliseconds."`
	CPUMS      float64 `json:"cpu_ms" about:"CPU time of all its processes in milliseconds."`
	TotalMS    float64 `json:"total_ms" about:"Time from request to result in milliseconds."`
	QueueMS    float64 `json:"queue_ms" about:"Time in the queue in milliseconds."`
	Warm       bool    `json:"warm,omitempty" about:"True if it used a warm sandbox, outside of sessions."`
	Cold       string  `json:"cold,omitempty" about:"Why it did not, if the server has warm sandboxes."`
	PeakMemory int64   `json:"peak_memory_bytes" about:"Its peak memory in bytes."`
}

type display struct {
	Text  string   `json:"text" about:"The value as text." required:"true"`
	HTML  string   `json:"html,omitempty" about:"The value as HTML, if short enough."`
	JSON  string   `json:"json,omitempty" about:"The value as JSON, if short enough."`
	Types []string `json:"types" about:"Its MIME types; images are in content."`
}

type programError struct {
	Type      string `json:"type" about:"The error's type, such as ValueError."`
	Message   string `json:"message" about:"The error message."`
	Traceback string `json:"traceback" about:"The stack trace."`
}

// ArtifactFacts describe an artifact.
type ArtifactFacts struct {
	Name     string `json:"name" about:"The file's name, relative to the working directory."`
	Size     int64  `json:"size" about:"Its size in bytes."`
	SHA256   string `json:"sha256" about:"Its SHA-256."`
	MIME     string `json:"mime" about:"Its MIME type."`
	URI      string `json:"uri,omitempty" about:"The URI of its resource."`
	Withheld string `json:"withheld,omitempty" about:"Why it is withheld."`
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
	Port     int    `json:"port" about:"The port; 0 if only its name was resolved."`
	Allowed  bool   `json:"allowed" about:"Whether access is allowed."`
	Failed   bool   `json:"failed,omitempty" about:"Access is allowed, but no connection succeeded."`
	Reason   string `json:"reason" about:"The reason."`
	Ask      string `json:"ask,omitempty" about:"The domain for request_egress, if a person can allow it."`
	Count    int64  `json:"count" about:"Number of connections, or of name lookups if port is 0."`
	Sent     int64  `json:"sent" about:"Bytes sent to it."`
	Received int64  `json:"received" about:"Bytes received from it."`
}

// PendingCall is a tool call that waits for its result.
type PendingCall struct {
	ID        string `json:"id" about:"The call's id."`
	Name      string `json:"name" about:"The tool."`
	Arguments string `json:"arguments" about:"Its arguments, an object as JSON."`
}
