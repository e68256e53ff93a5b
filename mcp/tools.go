package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/ask"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// tool is one operation for agents.
type tool struct {
	operation.Operation
	run func(context.Context, *call) (*answer.Answer, error)
}

// handler runs the calls of a tool with arguments of type A.
type handler[A any] func(context.Context, *call, *A) (*answer.Answer, error)

// row is a row of the table: a tool with results of type F.
func row[F, A any](name, title string, run handler[A], about string, hints operation.Hints) tool {
	return tool{operation.New[A, F](name, title, about, hints), func(ctx context.Context, c *call) (*answer.Answer, error) {
		return run(ctx, c, c.args.(*A))
	}}
}

const (
	reads, destroys, repeats = operation.Reads, operation.Destroys, operation.Repeats
	reachesOut, backgrounds  = operation.ReachesOut, operation.Backgrounds
)

// tools is the table of tools. A tool's file (NAME.go) has its description for the model (about...), its arguments
// (...Args), its handler, which is a method of Server, and the structured content of its result (...Facts).
func (s *Server) tools() []tool {
	return []tool{
		row[answer.RunFacts]("execute_code", "Run code", s.executeCode, aboutExecute, destroys|reachesOut|backgrounds),
		row[installFacts]("install_package", "Install packages", s.installPackage, aboutInstall, repeats|reachesOut),
		row[validateFacts]("validate_code", "Check code without running it", s.validateCode, aboutValidate, reads|repeats),
		row[sessionFacts]("create_session", "Start a session", s.createSession, aboutCreate, reachesOut),
		row[endedFacts]("terminate_session", "End a session", s.terminateSession, aboutTerminate, destroys|repeats),
		row[bridgeFacts]("bridge_data", "Copy data into a session", s.bridgeData, aboutBridge, destroys|repeats),
		row[runtimesFacts]("list_runtimes", "List languages and layers", s.listRuntimes, aboutRuntimes, reads|repeats),
		row[limitsFacts]("set_resource_limits", "Set limits", s.setLimits, aboutLimits, repeats),
		row[statsFacts]("sandbox_stats", "Show the server's statistics", s.sandboxStats, aboutStats, reads|repeats),
		row[stateFacts]("inspect_state", "Inspect sessions and background runs", s.inspectState, aboutInspect, reads|repeats),
		row[artifactsFacts]("get_artifacts", "Fetch files and output of a run", s.getArtifacts, aboutArtifacts, reads|repeats),
		row[ask.ApprovalFacts]("request_egress", "Ask a person for network access", s.requestEgress, aboutEgress, repeats|reachesOut),
		row[auditFacts]("audit_execution", "Read the audit log", s.auditExecution, aboutAudit, reads|repeats),
		row[searchFacts]("web_search", "Search the web", unlessOff(s, "web_search", "query", s.webSearch), aboutSearch, reads|repeats|reachesOut),
		row[pageFacts]("fetch_webpage", "Fetch a web page", unlessOff(s, "fetch_webpage", "url", s.fetchPage), aboutFetch,
			reads|repeats|reachesOut),
		row[browserFacts]("browser_fetch", "Fetch a web page with a browser", unlessOff(s, "browser_fetch", "url", s.browserFetch), aboutBrowser,
			reads|repeats|reachesOut),
		row[hostExecFacts]("host_exec", "Run a command on the host", unlessOff(s, "host_exec", "command", s.hostExec), aboutHostExec,
			destroys|reachesOut),
		row[ask.ApprovalFacts]("request_host_access", "Ask a person for access to the host", unlessOff(s, "request_host_access", "pattern",
			s.requestHostAccess), aboutHostAccess, repeats),
		row[hostListFacts]("list_host_access", "List permissions on the host", unlessOff(s, "list_host_access", "", s.listHostAccess),
			aboutHostList, reads|repeats),
		row[fileReadFacts]("host_file_read", "Read a file of the host", s.hostFileRead, aboutFileRead, reads|repeats),
		row[fileFacts]("host_file_write", "Write a file of the host", s.hostFileWrite, aboutFileWrite, destroys|repeats),
		row[fileListFacts]("host_file_list", "List a directory of the host", s.hostFileList, aboutFileList, reads|repeats),
		row[fileFacts]("host_file_copy", "Copy files between host and sandbox", s.hostFileCopy, aboutFileCopy, destroys|repeats),
	}
}

// entry is the tool's entry in tools/list, short if the tool is turned off.
func (s *Server) entry(t tool) mcp.Tool {
	if why := s.whyOff(t.Name); why != nil {
		return why.shortEntry(t)
	}
	return t.entry()
}

// entry returns the tool's entry in tools/list.
func (t tool) entry() mcp.Tool {
	out := mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.About,
		RawInputSchema: t.In.Schema(), RawOutputSchema: t.Out, Annotations: t.annotations(),
	}
	out.Annotations.Title = t.Title
	return out
}

// Operations describe the tools as operations without the protocol, at /v1/tools/NAME.
func Operations() []operation.Operation {
	var all []operation.Operation
	for _, t := range (&Server{}).tools() {
		o := t.Operation
		o.Route = http.MethodPost + " " + rpc.ToolsPath + o.Name
		o.Out = json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"result":%s,"images":{"type":"array","description":"Images in the result.","items":`+
			`{"type":"object","properties":{"mime":{"type":"string"},"data":{"type":"string","contentEncoding":"base64"}}}}},"required":["result"]}`,
			o.Out))
		all = append(all, o)
	}
	return all
}
