package control

import (
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/status"
)

// Operations for people only.
var (
	getServer = &operation.Route[NoArguments, Server]{Pattern: "GET /v1/server", Name: "get_server", About: "Describes the server."}
	GetStats  = &operation.Route[NoArguments, status.Stats]{Pattern: "GET /v1/stats", Name: "get_stats",
		About: "Shows the server's statistics since its start."}
	GetQueue = &operation.Route[NoArguments, pipeline.Load]{Pattern: "GET /v1/queue", Name: "get_queue",
		About: "Shows the numbers of running and waiting requests, by namespace."}
	ListJobs = &operation.Route[InNamespace, []run.Job]{Pattern: "GET /v1/jobs", Name: "list_jobs",
		About: "Lists the background runs: running ones and the last finished ones."}

	GetLimits = &operation.Route[OfLimits, Limits]{Pattern: "GET /v1/limits", Name: "get_limits",
		About: "Shows the default limits of a namespace's runs, or a session's limits, and the caps."}
	SetLimits = &operation.Route[Change, Limits]{Pattern: "POST /v1/limits", Name: "set_limits",
		About: "Sets limits, up to the operator's caps, and returns the limits in force."}

	listApprovals = &operation.Route[NoArguments, questions]{Pattern: "GET /v1/approvals", Name: "list_approvals",
		About: "Lists the open questions, oldest first."}
	listGrants = &operation.Route[NoArguments, grants]{Pattern: "GET /v1/grants", Name: "list_grants",
		About: "Lists the active approvals, oldest question first."}
	OpenApproval = &operation.Route[GrantRequest, approval.Question]{Pattern: "POST /v1/approvals", Name: "open_approval",
		About: "Opens a question, as an agent would."}
	AnswerApproval = &operation.Route[Verdict, Outcome]{Pattern: "POST /v1/approvals/{id}", Name: "answer_approval",
		About: "Answers a question, for at most what it asks. Denying an active approval revokes it."}
	GiveGrant = &operation.Route[GrantRequest, Grant]{Pattern: "POST /v1/grants", Name: "give_grant",
		About: "Approves something without a question."}

	ListSessions = &operation.Route[InNamespace, []session.Info]{Pattern: "GET /v1/sessions", Name: "list_sessions",
		About: "Lists the living sessions, then the last ended ones."}
	ListUsage = &operation.Route[OfLimits, []Used]{Pattern: "GET /v1/usage", Name: "list_usage",
		About: "Lists the living sessions with their resource use."}
	CreateSession = &operation.Route[NewSession, session.Info]{Pattern: "POST /v1/sessions", Name: "open_session", Long: true,
		About: "Starts a session. Omitted settings have the operator's defaults."}
	EndSession = &operation.Route[OfSession, session.Info]{Pattern: "DELETE /v1/sessions/{id}", Name: "end_session", Long: true,
		About: "Ends a session and its programs."}
	InspectSession = &operation.Route[OfSession, session.State]{Pattern: "GET /v1/sessions/{id}/state", Name: "inspect_session", Long: true,
		About: "Shows the variables, files and environment of a session."}
	PutValue = &operation.Route[Value, pipeline.Outcome]{Pattern: "POST /v1/sessions/{id}/bridge", Name: "bridge", Long: true,
		Max:   maxValueBody,
		About: "Sets a variable in a session, from a value or from a variable of another session in the namespace."}
	CopyFile = &operation.Route[Copy, CopiedFile]{Pattern: "POST /v1/sessions/{id}/copy", Name: "copy_file", Long: true,
		About: "Copies a file between the host and a session, within allowed directories."}
	putFiles = &operation.Route[filesIn, MovedFiles]{Pattern: "PUT /v1/sessions/{id}/files", Name: "put_files", Content: operation.Tar,
		About: "Unpacks a tar into a directory of a session. Nothing is written if the tar is truncated or does not match its Content-Digest."}
	getFiles = &operation.Route[filesIn, NoArguments]{Pattern: "GET /v1/sessions/{id}/files", Name: "get_files", Content: operation.Tar,
		About: "Returns a directory of a session as a tar, or a file (application/octet-stream)."}
	CopyExport = &operation.Route[Export, MovedFiles]{Pattern: "POST /v1/sessions/{id}/exports", Name: "copy_export", Long: true,
		About: "Copies files from the exports of another session in the namespace into a session."}
	runCell = &operation.Route[Cell, Part]{Pattern: "POST /v1/sessions/{id}/cells", Name: "run_cell", Max: maxCellBody, Stream: true,
		About: "Runs code in a session and streams its output and result. A disconnect interrupts the code."}
	InterruptCell = &operation.Route[OfRun, NoArguments]{Pattern: "POST /v1/cells/{id}/interrupt", Name: "interrupt_cell",
		About: "Interrupts a cell. Its stream continues to the end."}

	ListRunning = &operation.Route[InNamespace, []pipeline.RunningEffect]{Pattern: "GET /v1/running", Name: "list_running",
		About: "Lists the running operations of all callers, with their resource use."}
	watchRun = &operation.Route[OfRun, Part]{Pattern: "GET /v1/running/{id}/output", Name: "watch_run", Stream: true,
		About: "Streams a running program's output from its start, its displays, and the events about it."}
	ShowCode = &operation.Route[OfRun, Code]{Pattern: "GET /v1/running/{id}/code", Name: "show_code", Long: true,
		About: "Shows the code of a running program, with its dangerous patterns."}
	InterruptRun = &operation.Route[Interruption, Late]{Pattern: "POST /v1/running/{id}/interrupt", Name: "interrupt_run",
		About: "Interrupts or kills a running operation. The log records who did it."}
	ReviewCode = &operation.Route[CodeQuery, Code]{Pattern: "POST /v1/review", Name: "review_code", Long: true, Max: maxReview,
		About: "Finds dangerous patterns in code, without running it."}

	SearchLog = &operation.Route[LogQuery, FoundRows]{Pattern: "GET /v1/log", Name: "search_log",
		About: "Searches the audit log, newest rows first."}
	GetStory = &operation.Route[OfRun, Story]{Pattern: "GET /v1/log/{id}", Name: "get_story",
		About: "Shows the rows of one run in the audit log."}
	GetEvidence = &operation.Route[OfRun, Evidence]{Pattern: "GET /v1/log/{id}/evidence", Name: "get_evidence",
		About: "Returns the signed receipt of a run, the proof that its row is in the log, and the public keys."}
	ListStored = &operation.Route[StoredQuery, []Stored]{Pattern: "GET /v1/stored", Name: "list_stored",
		About: "Lists the runs with stored output and files, newest first."}
	ReadStored = &operation.Route[PartQuery, StoredPart]{Pattern: "GET /v1/stored/{id}", Name: "read_stored",
		About: "Reads a part of a stored run."}

	ListChanges = &operation.Route[ChangesQuery, []changes.Set]{Pattern: "GET /v1/changes", Name: "list_changes",
		About: "Lists the change sets of workspaces, newest first, without their paths."}
	GetChanges = &operation.Route[OfChanges, changes.Set]{Pattern: "GET /v1/changes/{id}", Name: "get_changes", Long: true,
		About: "Shows the paths of a change set, the first 10,000."}
	DiffChanges = &operation.Route[ChangesPart, ChangesDiff]{Pattern: "POST /v1/changes/{id}/diff", Name: "diff_changes", Long: true,
		About: "Returns the difference of a change set in git's format, without the secrets in it."}
	ApplyChanges = &operation.Route[ChangesPart, changes.Applied]{Pattern: "POST /v1/changes/{id}/apply", Name: "apply_changes", Long: true,
		About: "Applies a change set to its directory, all or nothing. A path that is held back must be named."}
	UndoChanges = &operation.Route[OfChanges, changes.Applied]{Pattern: "POST /v1/changes/{id}/undo", Name: "undo_changes", Long: true,
		About: "Restores what an applied change set has replaced."}
	DropChanges = &operation.Route[OfChanges, changes.Applied]{Pattern: "DELETE /v1/changes/{id}", Name: "drop_changes", Long: true,
		About: "Deletes the content of a change set."}

	GetPolicy = &operation.Route[NoArguments, []Setting]{Pattern: "GET /v1/policy", Name: "get_policy",
		About: "Shows the settings in force, with the source of each."}
	ListSecrets = &operation.Route[SecretsQuery, Secrets]{Pattern: "GET /v1/secrets", Name: "list_secrets",
		About: "Lists the names of a namespace's secrets, without values."}
	RunDoctor = &operation.Route[NoArguments, []Finding]{Pattern: "GET /v1/doctor", Name: "run_doctor", Long: true,
		About: "Checks which isolation layers this machine supports."}
	GetDisk = &operation.Route[NoArguments, Disk]{Pattern: "GET /v1/disk", Name: "get_disk",
		About: "Shows the used and free disk space of the server's state."}
	GetFigures = &operation.Route[FiguresQuery, Figures]{Pattern: "GET /v1/figures", Name: "get_figures",
		About: "Returns daily statistics: runs, refusals, durations, memory, contacted hosts."}
	OpenPage = &operation.Route[InvitationQuery, Invitation]{Pattern: "POST /v1/page", Name: "open_page",
		About: "Creates a single-use code that admits a browser to the page for a short time."}

	streamEvents = &operation.Route[EventQuery, Line]{Pattern: "GET /v1/events", Name: "stream_events", Stream: true,
		About: "Streams recent and future events. A line without a number reports missing events."}
)

// Operations returns the operations for people.
func Operations() []operation.Operation {
	return []operation.Operation{
		getServer.Operation(), GetStats.Operation(), GetQueue.Operation(), ListJobs.Operation(), GetLimits.Operation(), SetLimits.Operation(),
		listApprovals.Operation(), listGrants.Operation(), OpenApproval.Operation(), AnswerApproval.Operation(), GiveGrant.Operation(),
		ListSessions.Operation(), ListUsage.Operation(), CreateSession.Operation(), EndSession.Operation(), InspectSession.Operation(),
		PutValue.Operation(),
		CopyFile.Operation(), putFiles.Operation(), getFiles.Operation(), CopyExport.Operation(), runCell.Operation(), InterruptCell.Operation(),
		streamEvents.Operation(),
		ListRunning.Operation(), watchRun.Operation(), ShowCode.Operation(), InterruptRun.Operation(), ReviewCode.Operation(),
		SearchLog.Operation(), GetStory.Operation(), GetEvidence.Operation(), ListStored.Operation(), ReadStored.Operation(),
		ListChanges.Operation(), GetChanges.Operation(), DiffChanges.Operation(), ApplyChanges.Operation(), UndoChanges.Operation(),
		DropChanges.Operation(),
		GetPolicy.Operation(), ListSecrets.Operation(), RunDoctor.Operation(), GetDisk.Operation(), GetFigures.Operation(), OpenPage.Operation(),
	}
}

// NoArguments is the argument type of operations without arguments.
type NoArguments struct{}

// InNamespace selects a namespace.
type InNamespace struct {
	Namespace string `json:"namespace,omitempty" about:"Only this namespace. Default: all that the caller may see." range:"..64"`
}

// OfLimits selects a session, a namespace, or all.
type OfLimits struct {
	InNamespace
	Session string `json:"session,omitempty" about:"The id of a session, or a unique prefix: only this session." range:"..64"`
}

// OfSession names a session.
type OfSession struct {
	ID string `json:"id" about:"The id of a session, or a unique prefix." required:"true" range:"..64"`
}

// OfRun names a run.
type OfRun struct {
	ID string `json:"id" about:"The id of the run." required:"true" range:"..64"`
}
