// Package event notifies listeners of the pipeline's actions as they happen.
//
// Events are for watching: a slow or dead listener loses them, and nothing waits for it. The audit log has everything
// that must not be lost.
package event

import "time"

// The complete list of events.
const (
	ExecutionStarted   = "execution.started"   // a program is about to begin
	ExecutionCompleted = "execution.completed" // it ended by itself, with any exit code
	ExecutionFailed    = "execution.failed"    // it could not be run, or was refused
	ExecutionTimeout   = "execution.timeout"   // it reached its time limit
	SessionCreated     = "session.created"
	SessionKilled      = "session.killed" // closed, expired or dead; Data says which
	PackageInstalled   = "package.installed"
	EgressRequested    = "egress.requested" // a person was asked about a host
	EgressApproved     = "egress.approved"
	EgressDenied       = "egress.denied"
	VaultAccessed      = "vault.accessed"    // secrets were leased; Data has their names only
	ResourceExceeded   = "resource.exceeded" // a limit was reached; Data says which
	ArtifactSigned     = "artifact.signed"
	QueueBackpressure  = "queue.backpressure" // a request has to wait, or was refused
)

// names is in the order of a run's life.
var names = [...]string{
	ExecutionStarted, ExecutionCompleted, ExecutionFailed, ExecutionTimeout,
	SessionCreated, SessionKilled, PackageInstalled,
	EgressRequested, EgressApproved, EgressDenied,
	VaultAccessed, ResourceExceeded, ArtifactSigned, QueueBackpressure,
}

// Names returns all event names, in the order of a run's life.
func Names() []string { return append([]string(nil), names[:]...) }

// Event is one event. It is redacted before it is published.
type Event struct {
	// Seq is its number on its bus, from 1 without gaps. A listener to all namespaces and kinds recognizes missed
	// events by it.
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"` // set by Publish when zero
	Name      string    `json:"name"`
	Run       string    `json:"run,omitempty"` // id of the run, session or question, "" when it concerns none
	Namespace string    `json:"namespace,omitempty"`
	// Data holds details for JSON. Listeners share it, and must not modify it. Values that would make the event too
	// large are omitted and named under "left_out".
	Data map[string]any `json:"data,omitempty"`
}
