package control

import (
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/status"
)

// The operations that people have, and agents do not.
var (
	getServer = &operation.Route[Nothing, Server]{Pattern: "GET /v1/server", Name: "get_server", About: "Describes the server."}
	GetStats  = &operation.Route[Nothing, status.Stats]{Pattern: "GET /v1/stats", Name: "get_stats", About: "Shows the server's figures since its start."}
	GetQueue  = &operation.Route[Nothing, pipeline.Load]{Pattern: "GET /v1/queue", Name: "get_queue", About: "Shows how many requests run and wait, by namespace."}
	ListJobs  = &operation.Route[InNamespace, []run.Job]{Pattern: "GET /v1/jobs", Name: "list_jobs", About: "Lists the runs in the background, and the last that are done."}

	GetLimits = &operation.Route[OfLimits, Limits]{Pattern: "GET /v1/limits", Name: "get_limits",
		About: "Shows the limits of a namespace's run that asks for none, or those of a session, and the caps of all."}
	SetLimits = &operation.Route[Change, Limits]{Pattern: "POST /v1/limits", Name: "set_limits",
		About: "Sets limits, at most the operator's caps, and shows those that are in force then."}

	listApprovals = &operation.Route[Nothing, questions]{Pattern: "GET /v1/approvals", Name: "list_approvals", About: "Lists the questions that wait for an answer, the oldest first."}
	listGrants    = &operation.Route[Nothing, grants]{Pattern: "GET /v1/grants", Name: "list_grants", About: "Lists the approvals that hold, the oldest question first."}
	OpenApproval  = &operation.Route[GrantRequest, approval.Question]{Pattern: "POST /v1/approvals", Name: "open_approval",
		About: "Opens a question as an agent would. It waits for an answer like any other."}
	AnswerApproval = &operation.Route[Verdict, Outcome]{Pattern: "POST /v1/approvals/{id}", Name: "answer_approval",
		About: "Answers a question, for no more than was asked. A no to an approval that holds takes it back."}
	GiveGrant = &operation.Route[GrantRequest, Grant]{Pattern: "POST /v1/grants", Name: "give_grant", About: "Approves what nobody has asked for."}

	ListSessions = &operation.Route[InNamespace, []session.Info]{Pattern: "GET /v1/sessions", Name: "list_sessions",
		About: "Lists the sessions: those that live, and then the last that have ended."}
	ListUsage      = &operation.Route[OfLimits, []Used]{Pattern: "GET /v1/usage", Name: "list_usage", About: "Lists the sessions that live, with what each uses."}
	CreateSession  = &operation.Route[NewSession, session.Info]{Pattern: "POST /v1/sessions", Name: "open_session", Long: true, About: "Starts a session. What is left out is the operator's default."}
	EndSession     = &operation.Route[OfSession, session.Info]{Pattern: "DELETE /v1/sessions/{id}", Name: "end_session", Long: true, About: "Ends a session and all that runs in it."}
	InspectSession = &operation.Route[OfSession, session.State]{Pattern: "GET /v1/sessions/{id}/state", Name: "inspect_session", Long: true,
		About: "Shows the variables, files and environment of a session."}
	PutValue = &operation.Route[Value, pipeline.Outcome]{Pattern: "POST /v1/sessions/{id}/bridge", Name: "bridge", Long: true, Max: maxValueBody,
		About: "Puts a value into a session: a given one, or a variable of another session of the same namespace."}
	CopyFile = &operation.Route[Copy, Copied]{Pattern: "POST /v1/sessions/{id}/copy", Name: "copy_file", Long: true,
		About: "Copies a file between the host and a session, below directories that are allowed."}
	putFiles = &operation.Route[filesIn, Moved]{Pattern: "PUT /v1/sessions/{id}/files", Name: "put_files", Content: operation.Tar,
		About: "Writes the files of a tar into a directory of a session: all of them, or none where the tar is not whole or not what its Content-Digest says."}
	getFiles = &operation.Route[filesIn, Nothing]{Pattern: "GET /v1/sessions/{id}/files", Name: "get_files", Content: operation.Tar,
		About: "Hands out a directory of a session as a tar, or a file as it is (application/octet-stream)."}
	CopyExport = &operation.Route[Export, Moved]{Pattern: "POST /v1/sessions/{id}/exports", Name: "copy_export", Long: true,
		About: "Copies into a session what another session of its namespace has put into its directory exports."}
	runCell = &operation.Route[Cell, Part]{Pattern: "POST /v1/sessions/{id}/cells", Name: "run_cell", Max: maxCellBody, Stream: true,
		About: "Runs code in a session, and tells what comes of it as it comes. A client that goes away has interrupted it."}
	InterruptCell = &operation.Route[OfRun, Nothing]{Pattern: "POST /v1/cells/{id}/interrupt", Name: "interrupt_cell",
		About: "Interrupts a cell, whose stream goes on to its end."}

	ListRunning = &operation.Route[InNamespace, []pipeline.Running]{Pattern: "GET /v1/running", Name: "list_running",
		About: "Lists what is under way, whoever has asked for it, with what it uses."}
	watchRun = &operation.Route[OfRun, Part]{Pattern: "GET /v1/running/{id}/output", Name: "watch_run", Stream: true,
		About: "Streams what a program that is under way writes, from its beginning, what it shows, and the events about it."}
	ShowCode = &operation.Route[OfRun, Code]{Pattern: "GET /v1/running/{id}/code", Name: "show_code", Long: true,
		About: "Shows the code of a program that is under way, and what is dangerous in it."}
	InterruptRun = &operation.Route[Interruption, Late]{Pattern: "POST /v1/running/{id}/interrupt", Name: "interrupt_run",
		About: "Interrupts what is under way, or ends it at once. The log has who did."}
	ReviewCode = &operation.Route[CodeQuery, Code]{Pattern: "POST /v1/review", Name: "review_code", Long: true, Max: maxReview, About: "Finds what is dangerous in code, without running it."}

	SearchLog   = &operation.Route[LogQuery, Found]{Pattern: "GET /v1/log", Name: "search_log", About: "Finds rows of the audit log, the newest first."}
	GetStory    = &operation.Route[OfRun, Story]{Pattern: "GET /v1/log/{id}", Name: "get_story", About: "Shows all that the audit log has about one run."}
	GetEvidence = &operation.Route[OfRun, Evidence]{Pattern: "GET /v1/log/{id}/evidence", Name: "get_evidence",
		About: "Hands out the signed receipt of a run, the proof that its row is in the log, and the public keys."}
	ListStored = &operation.Route[StoredQuery, []Stored]{Pattern: "GET /v1/stored", Name: "list_stored", About: "Lists the runs that output and files are kept of, the newest first."}
	ReadStored = &operation.Route[PartQuery, StoredPart]{Pattern: "GET /v1/stored/{id}", Name: "read_stored", About: "Reads a piece of what is kept of a run."}

	GetPolicy   = &operation.Route[Nothing, []Setting]{Pattern: "GET /v1/policy", Name: "get_policy", About: "Shows the settings in force, and where each comes from."}
	ListSecrets = &operation.Route[SecretsQuery, Secrets]{Pattern: "GET /v1/secrets", Name: "list_secrets", About: "Lists the names of a namespace's secrets, and no values."}
	RunDoctor   = &operation.Route[Nothing, []Finding]{Pattern: "GET /v1/doctor", Name: "run_doctor", Long: true, About: "Says what the machine can contain programs with, and what is missing."}
	GetDisk     = &operation.Route[Nothing, Disk]{Pattern: "GET /v1/disk", Name: "get_disk", About: "Shows the space that the server's state has and takes."}
	GetFigures  = &operation.Route[FiguresQuery, Figures]{Pattern: "GET /v1/figures", Name: "get_figures",
		About: "Sums up the last days: runs, refusals, durations, memory, names that were reached."}
	OpenPage = &operation.Route[InvitationQuery, Invitation]{Pattern: "POST /v1/page", Name: "open_page", About: "Makes a code that lets a browser into the page, once and soon."}

	streamEvents = &operation.Route[EventQuery, Line]{Pattern: "GET /v1/events", Name: "stream_events", Stream: true,
		About: "Streams the events that the server remembers, and those that come. A line without a number is a notice about what is missing there."}
)

// Operations describe what people can ask of a server.
func Operations() []operation.Operation {
	return []operation.Operation{
		getServer.Operation(), GetStats.Operation(), GetQueue.Operation(), ListJobs.Operation(), GetLimits.Operation(), SetLimits.Operation(),
		listApprovals.Operation(), listGrants.Operation(), OpenApproval.Operation(), AnswerApproval.Operation(), GiveGrant.Operation(),
		ListSessions.Operation(), ListUsage.Operation(), CreateSession.Operation(), EndSession.Operation(), InspectSession.Operation(), PutValue.Operation(),
		CopyFile.Operation(), putFiles.Operation(), getFiles.Operation(), CopyExport.Operation(), runCell.Operation(), InterruptCell.Operation(), streamEvents.Operation(),
		ListRunning.Operation(), watchRun.Operation(), ShowCode.Operation(), InterruptRun.Operation(), ReviewCode.Operation(),
		SearchLog.Operation(), GetStory.Operation(), GetEvidence.Operation(), ListStored.Operation(), ReadStored.Operation(),
		GetPolicy.Operation(), ListSecrets.Operation(), RunDoctor.Operation(), GetDisk.Operation(), GetFigures.Operation(), OpenPage.Operation(),
	}
}

// Nothing is what operations without arguments are asked with.
type Nothing struct{}

// InNamespace chooses what is of a namespace.
type InNamespace struct {
	Namespace string `json:"namespace,omitempty" about:"Only what is of this namespace. Default: of all that the caller may see." range:"..64"`
}

// OfLimits chooses a session, a namespace, or all.
type OfLimits struct {
	InNamespace
	Session string `json:"session,omitempty" about:"The id of a session, or its beginning where no other has it: only what is of that one." range:"..64"`
}

// OfSession names a session.
type OfSession struct {
	ID string `json:"id" about:"The id of a session, or its beginning where no other has it." required:"true" range:"..64"`
}

// OfRun names a run.
type OfRun struct {
	ID string `json:"id" about:"The id of the cell's run." required:"true" range:"..64"`
}
