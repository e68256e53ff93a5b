package mcp

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// A tool is one operation that agents have.
type tool struct {
	operation.Operation
	run func(context.Context, *call) (*answer, error)
}

// A handler carries out the calls of a tool whose arguments are an A.
type handler[A any] func(context.Context, *call, *A) (*answer, error)

// row is one row of the table: a tool whose result is an F.
func row[F, A any](name, title string, run handler[A], about string, hints operation.Hints) tool {
	return tool{operation.Of[A, F](name, title, about, hints), func(ctx context.Context, c *call) (*answer, error) { return run(ctx, c, c.args.(*A)) }}
}

// do has the pipeline carry out an effect, and tell make the answer of what came of it.
func do[T any](ctx context.Context, s *Server, e pipeline.Effect[T], tell func(T, pipeline.Outcome) *answer) (*answer, error) {
	came, res, err := pipeline.Do(ctx, s.cfg.Pipeline, e)
	if err != nil {
		return nil, err
	}
	return tell(came, res), nil
}

const (
	reads, destroys, repeats = operation.Reads, operation.Destroys, operation.Repeats
	reachesOut, backgrounds  = operation.ReachesOut, operation.Backgrounds
)

// tools is the table of tools. In its file (tool_NOUN.go), a tool has a description for the model (about...), its arguments (...Args),
// its handler, which is a method of Server, and the structured content of its result (...Facts).
func (s *Server) tools() []tool {
	return []tool{
		row[runFacts]("execute_code", "Run code", s.executeCode, aboutExecute, destroys|reachesOut|backgrounds),
		row[installFacts]("install_package", "Install packages", s.installPackage, aboutInstall, repeats|reachesOut),
		row[validateFacts]("validate_code", "Check code without running it", s.validateCode, aboutValidate, reads|repeats),
		row[sessionFacts]("create_session", "Start a session", s.createSession, aboutCreate, reachesOut),
		row[endedFacts]("terminate_session", "End a session", s.terminateSession, aboutTerminate, destroys|repeats),
		row[bridgeFacts]("bridge_data", "Put data into a session", s.bridgeData, aboutBridge, destroys|repeats),
		row[runtimesFacts]("list_runtimes", "List languages and layers", s.listRuntimes, aboutRuntimes, reads|repeats),
		row[limitsFacts]("set_resource_limits", "Set limits", s.setLimits, aboutLimits, repeats),
		row[statsFacts]("sandbox_stats", "Show the server's figures", s.sandboxStats, aboutStats, reads|repeats),
		row[stateFacts]("inspect_state", "Look into sessions and background runs", s.inspectState, aboutInspect, reads|repeats),
		row[artifactsFacts]("get_artifacts", "Fetch files and output of a run", s.getArtifacts, aboutArtifacts, reads|repeats),
		row[approvalFacts]("request_egress", "Ask a person for network access", s.requestEgress, aboutEgress, repeats|reachesOut),
		row[auditFacts]("audit_execution", "Read the audit log", s.auditExecution, aboutAudit, reads|repeats),
		row[searchFacts]("web_search", "Search the web", unlessOff(s, "web_search", "query", s.webSearch), aboutSearch, reads|repeats|reachesOut),
		row[pageFacts]("fetch_webpage", "Fetch a web page", unlessOff(s, "fetch_webpage", "url", s.fetchPage), aboutFetch, reads|repeats|reachesOut),
		row[browserFacts]("browser_fetch", "Fetch a web page with a browser", unlessOff(s, "browser_fetch", "url", s.browserFetch), aboutBrowser, reads|repeats|reachesOut),
		row[hostExecFacts]("host_exec", "Run a command on the host", unlessOff(s, "host_exec", "command", s.hostExec), aboutHostExec, destroys|reachesOut),
		row[approvalFacts]("request_host_access", "Ask a person for access to the host", unlessOff(s, "request_host_access", "pattern", s.requestHostAccess), aboutHostAccess, repeats),
		row[hostListFacts]("list_host_access", "List what is allowed on the host", unlessOff(s, "list_host_access", "", s.listHostAccess), aboutHostList, reads|repeats),
		row[fileReadFacts]("host_file_read", "Read a file of the host", s.hostFileRead, aboutFileRead, reads|repeats),
		row[fileFacts]("host_file_write", "Write a file of the host", s.hostFileWrite, aboutFileWrite, destroys|repeats),
		row[fileListFacts]("host_file_list", "List a directory of the host", s.hostFileList, aboutFileList, reads|repeats),
		row[fileFacts]("host_file_copy", "Copy files between host and sandbox", s.hostFileCopy, aboutFileCopy, destroys|repeats),
	}
}

// entry is the tool's entry in tools/list, with what clients are left to see by tailor.
func (s *Server) entry(t tool) mcp.Tool {
	if why := s.whyOff(t.Name); why != nil {
		return why.entry(t)
	}
	return t.entry()
}

// entry returns the tool as tools/list has it.
func (t tool) entry() mcp.Tool {
	out := mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.About,
		RawInputSchema: t.In.Schema(), RawOutputSchema: t.Out, Annotations: t.annotations(),
	}
	out.Annotations.Title = t.Title
	return out
}

func (t tool) annotations() mcp.ToolAnnotation {
	on := func(h operation.Hints) *bool { b := t.Hints&h != 0; return &b }
	return mcp.ToolAnnotation{ReadOnlyHint: on(reads), DestructiveHint: on(destroys), IdempotentHint: on(repeats), OpenWorldHint: on(reachesOut)}
}

// Arguments that several tools have.

type inNamespace struct {
	Namespace string `json:"namespace" about:"Whose sessions, packages, secrets, limits and log it is for. Default: \"default\"." range:"..64"`
}

type onBackend struct {
	Backend string `json:"backend" about:"What contains the code. Default: the operator's choice; list_runtimes tells what each offers." oneof:"process podman docker"`
}

type limited struct {
	Limits limits `json:"resource_limits" about:"Limits, at most the operator's caps. Default: what the operator or set_resource_limits has set."`
}

// limits are those that are asked for: 0 is that it is not.
type limits struct {
	RAM       int64   `json:"max_ram_mb" about:"MB of memory, for all processes together." range:"1..1048576"`
	CPU       float64 `json:"max_cpu_cores" about:"Cores that it may use." range:"0.01..1024"`
	Wall      float64 `json:"timeout_seconds" about:"Seconds for a run, or a session's call." range:"0.001..86400"`
	Processes int     `json:"max_processes" about:"Processes and threads, beside the interpreter's." range:"1..65536"`
	Output    int64   `json:"max_output_bytes" about:"Bytes that are kept of stdout, and of stderr." range:"1..1073741824"`
}

func (l limits) bounds() pipeline.Bounds {
	return pipeline.BoundsOf(session.Limits{RAM: l.RAM, CPU: l.CPU, Wall: l.Wall, Processes: l.Processes, Output: l.Output})
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// language is one that can be run; "" is not said.
type language string

// Values are the languages.
func (language) Values() []string { return []string{"python", "node", "typescript", "shell", "r"} }

// Spellings are what models call them, too.
func (language) Spellings() map[string]string {
	return map[string]string{
		"python3": "python", "py": "python", "ipython": "python",
		"nodejs": "node", "javascript": "node", "js": "node", "node.js": "node", "ecmascript": "node",
		"ts": "typescript", "bash": "shell", "sh": "shell", "zsh": "shell", "rscript": "r",
	}
}
