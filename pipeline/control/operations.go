package control

import (
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// The operations that people have, and agents do not.
var (
	getServer = operation.Route[nothing, Server]{Pattern: "GET /v1/server", Name: "get_server", About: "Describes the server."}
	getStats  = operation.Route[nothing, pipeline.Stats]{Pattern: "GET /v1/stats", Name: "get_stats", About: "Shows the server's figures since its start."}
	getQueue  = operation.Route[nothing, pipeline.Load]{Pattern: "GET /v1/queue", Name: "get_queue", About: "Shows how many requests run and wait, by namespace."}
	listJobs  = operation.Route[inNamespace, []pipeline.Job]{Pattern: "GET /v1/jobs", Name: "list_jobs", About: "Lists the runs in the background, and the last that are done."}

	getLimits = operation.Route[ofLimits, Limits]{Pattern: "GET /v1/limits", Name: "get_limits",
		About: "Shows the limits of a namespace's run that asks for none, or those of a session, and the caps of all."}
	setLimits = operation.Route[Change, Limits]{Pattern: "POST /v1/limits", Name: "set_limits",
		About: "Sets limits, at most the operator's caps, and shows those that are in force then."}

	listApprovals = operation.Route[nothing, questions]{Pattern: "GET /v1/approvals", Name: "list_approvals", About: "Lists the questions that wait for an answer, the oldest first."}
	listGrants    = operation.Route[nothing, grants]{Pattern: "GET /v1/grants", Name: "list_grants", About: "Lists the approvals that hold, the oldest question first."}
	openApproval  = operation.Route[GrantRequest, approval.Question]{Pattern: "POST /v1/approvals", Name: "open_approval",
		About: "Opens a question as an agent would. It waits for an answer like any other."}
	answerApproval = operation.Route[answer, Outcome]{Pattern: "POST /v1/approvals/{id}", Name: "answer_approval",
		About: "Answers a question, for no more than was asked. A no to an approval that holds takes it back."}
	giveGrant = operation.Route[GrantRequest, Grant]{Pattern: "POST /v1/grants", Name: "give_grant", About: "Approves what nobody has asked for."}

	listSessions = operation.Route[inNamespace, []session.Info]{Pattern: "GET /v1/sessions", Name: "list_sessions",
		About: "Lists the sessions: those that live, and then the last that have ended."}
	listUsage     = operation.Route[ofLimits, []Used]{Pattern: "GET /v1/usage", Name: "list_usage", About: "Lists the sessions that live, with what each uses."}
	createSession = operation.Route[NewSession, session.Info]{Pattern: "POST /v1/sessions", Name: "open_session", About: "Starts a session. What is left out is the operator's default."}
	endSession    = operation.Route[ofSession, session.Info]{Pattern: "DELETE /v1/sessions/{id}", Name: "end_session", About: "Ends a session and all that runs in it."}
	inspect       = operation.Route[ofSession, session.State]{Pattern: "GET /v1/sessions/{id}/state", Name: "inspect_session",
		About: "Shows the variables, files and environment of a session."}
	bridge = operation.Route[valueIn, pipeline.Result]{Pattern: "POST /v1/sessions/{id}/bridge", Name: "bridge", Max: maxValueBody,
		About: "Puts a value into a session: a given one, or a variable of another session of the same namespace."}
	copyFile = operation.Route[copyIn, Copied]{Pattern: "POST /v1/sessions/{id}/copy", Name: "copy_file",
		About: "Copies a file between the host and a session, below directories that are allowed."}
	runCell = operation.Route[cellIn, Part]{Pattern: "POST /v1/sessions/{id}/cells", Name: "run_cell", Max: maxCellBody, Stream: true,
		About: "Runs code in a session, and tells what comes of it as it comes. A client that goes away has interrupted it."}
	interruptCell = operation.Route[ofRun, nothing]{Pattern: "POST /v1/cells/{id}/interrupt", Name: "interrupt_cell",
		About: "Interrupts a cell, whose stream goes on to its end."}

	streamEvents = operation.Route[EventQuery, Line]{Pattern: "GET /v1/events", Name: "stream_events", Stream: true,
		About: "Streams the events that the server remembers, and those that come. A line without a number is a notice about what is missing there."}
)

// Operations describe what people can ask of a server.
func Operations() []operation.Operation {
	return []operation.Operation{
		getServer.Operation(), getStats.Operation(), getQueue.Operation(), listJobs.Operation(), getLimits.Operation(), setLimits.Operation(),
		listApprovals.Operation(), listGrants.Operation(), openApproval.Operation(), answerApproval.Operation(), giveGrant.Operation(),
		listSessions.Operation(), listUsage.Operation(), createSession.Operation(), endSession.Operation(), inspect.Operation(), bridge.Operation(),
		copyFile.Operation(), runCell.Operation(), interruptCell.Operation(), streamEvents.Operation(),
	}
}

type nothing struct{}

type inNamespace struct {
	Namespace string `json:"namespace,omitempty" about:"Only what is of this namespace. Default: of all that the caller may see." range:"..64"`
}

type ofLimits struct {
	inNamespace
	Session string `json:"session,omitempty" about:"The id of a session, or its beginning where no other has it: only what is of that one." range:"..64"`
}

type ofSession struct {
	ID string `json:"id" about:"The id of a session, or its beginning where no other has it." required:"true" range:"..64"`
}

type ofRun struct {
	ID string `json:"id" about:"The id of the cell's run." required:"true" range:"..64"`
}

type valueIn struct {
	ofSession
	Value
}

type copyIn struct {
	ofSession
	Copy
}

type cellIn struct {
	ofSession
	Cell
}

type answer struct {
	ID string `json:"id" about:"The id of the question." required:"true" range:"..64"`
	Verdict
}
