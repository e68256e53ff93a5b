// Package event tells listeners what the pipeline does, as it happens.
//
// Events are for watching: a slow or dead listener loses them, and nothing waits for it. What must
// not be lost is in the audit log.
package event

import "time"

// The events. There are no others.
const (
	ExecutionStarted   = "execution.started"   // a program is about to begin
	ExecutionCompleted = "execution.completed" // it ended by itself, with whatever exit code
	ExecutionFailed    = "execution.failed"    // it could not be run, or was refused
	ExecutionTimeout   = "execution.timeout"   // its wall time was up
	SessionCreated     = "session.created"
	SessionKilled      = "session.killed" // closed, expired or dead; Data says which
	PackageInstalled   = "package.installed"
	EgressRequested    = "egress.requested" // a name that nobody has decided about
	EgressApproved     = "egress.approved"
	EgressDenied       = "egress.denied"
	VaultAccessed      = "vault.accessed"    // secrets were leased; Data has their names only
	ResourceExceeded   = "resource.exceeded" // a limit was hit; Data says which
	ArtifactSigned     = "artifact.signed"
	QueueBackpressure  = "queue.backpressure" // a request has to wait, or was turned away
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

// Event is one thing that happened. Secrets have been taken out before it is published.
type Event struct {
	// Seq is its number on its bus, from 1 on without a gap. Who sees all namespaces and all kinds
	// sees by it what was missed.
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"` // set by Publish when zero
	Name      string    `json:"name"`
	Run       string    `json:"run,omitempty"` // id of the run, session or question, "" when it concerns none
	Namespace string    `json:"namespace,omitempty"`
	// Data holds details that can be written as JSON. Listeners share it, and must not change it.
	// What would make the event too large is not in it, and named under "left_out".
	Data map[string]any `json:"data,omitempty"`
}
