package mcp

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
)

// A tool is one row of the table.
type tool struct {
	name, title string
	run         func(context.Context, *call) (*answer, error)
	about       string
	in, out     form
	hints       hints
}

// hints are what clients decide by whether to ask their user before a call.
type hints uint8

const (
	reads       hints = 1 << iota // changes nothing
	destroys                      // may remove or overwrite something
	repeats                       // a second call with the same arguments changes nothing more
	reachesOut                    // may reach beyond this machine
	backgrounds                   // may run as a task
)

// tools is the table of tools. In its file (tool_NOUN.go), a tool has a description for the model (about...), its arguments (...In),
// its handler, which is a method of Server, and the structured content of its result (...Facts).
func (s *Server) tools() []tool {
	return []tool{
		{"execute_code", "Run code", s.executeCode, aboutExecute, executeIn(), shape[runFacts](), destroys | reachesOut | backgrounds},
		{"install_package", "Install packages", s.installPackage, aboutInstall, installIn(), shape[installFacts](), repeats | reachesOut},
		{"validate_code", "Check code without running it", s.validateCode, aboutValidate, validateIn(), shape[validateFacts](), reads | repeats},
		{"create_session", "Start a session", s.createSession, aboutCreate, createIn(), shape[sessionFacts](), reachesOut},
		{"terminate_session", "End a session", s.terminateSession, aboutTerminate, terminateIn(), shape[endedFacts](), destroys | repeats},
		{"bridge_data", "Put data into a session", s.bridgeData, aboutBridge, bridgeIn(), shape[bridgeFacts](), destroys | repeats},
		{"list_runtimes", "List languages and layers", s.listRuntimes, aboutRuntimes, runtimesIn(), shape[runtimesFacts](), reads | repeats},
		{"set_resource_limits", "Set limits", s.setLimits, aboutLimits, limitsIn(), shape[limitsFacts](), repeats},
		{"sandbox_stats", "Show the server's figures", s.sandboxStats, aboutStats, statsIn(), shape[statsFacts](), reads | repeats},
		{"inspect_state", "Look into sessions and background runs", s.inspectState, aboutInspect, inspectIn(), shape[stateFacts](), reads | repeats},
		{"get_artifacts", "Fetch files and output of a run", s.getArtifacts, aboutArtifacts, artifactsIn(), shape[artifactsFacts](), reads | repeats},
		{"request_egress", "Ask a person for network access", s.requestEgress, aboutEgress, egressIn(), shape[approvalFacts](), repeats | reachesOut},
		{"audit_execution", "Read the audit log", s.auditExecution, aboutAudit, auditIn(), shape[auditFacts](), reads | repeats},
		{"web_search", "Search the web", s.unlessOff("web_search", "query", s.webSearch), aboutSearch, searchIn(), shape[searchFacts](), reads | repeats | reachesOut},
		{"fetch_webpage", "Fetch a web page", s.unlessOff("fetch_webpage", "url", s.fetchPage), aboutFetch, fetchIn(), shape[pageFacts](), reads | repeats | reachesOut},
		{"browser_fetch", "Fetch a web page with a browser", s.unlessOff("browser_fetch", "url", s.browserFetch), aboutBrowser, browserIn(), shape[browserFacts](), reads | repeats | reachesOut},
		{"host_exec", "Run a command on the host", s.unlessOff("host_exec", "command", s.hostExec), aboutHostExec, hostExecIn(), shape[hostExecFacts](), destroys | reachesOut},
		{"request_host_access", "Ask a person for access to the host", s.unlessOff("request_host_access", "pattern", s.requestHostAccess), aboutHostAccess, hostAccessIn(), shape[approvalFacts](), repeats},
		{"list_host_access", "List what is allowed on the host", s.unlessOff("list_host_access", "", s.listHostAccess), aboutHostList, hostListIn(), shape[hostListFacts](), reads | repeats},
		{"host_file_read", "Read a file of the host", s.hostFileRead, aboutFileRead, fileReadIn(), shape[fileReadFacts](), reads | repeats},
		{"host_file_write", "Write a file of the host", s.hostFileWrite, aboutFileWrite, fileWriteIn(), shape[fileFacts](), destroys | repeats},
		{"host_file_list", "List a directory of the host", s.hostFileList, aboutFileList, fileListIn(), shape[fileListFacts](), reads | repeats},
		{"host_file_copy", "Copy files between host and sandbox", s.hostFileCopy, aboutFileCopy, fileCopyIn(), shape[fileFacts](), destroys | repeats},
	}
}

// entry is the tool's entry in tools/list, with what clients are left to see by tailor.
func (s *Server) entry(t tool) mcp.Tool {
	t.in = s.offered(t.in)
	if why := s.whyOff(t.name); why != nil {
		return why.entry(t)
	}
	return t.entry()
}

// offered are the arguments that this server offers. That which names a namespace is understood where there is only one, too.
func (s *Server) offered(f form) form {
	if s.cfg.Namespace == "" {
		return f
	}
	f = slices.Clone(f)
	for i := range f {
		f[i].quiet = f[i].quiet || f[i].name == "namespace"
	}
	return f
}

// entry returns the tool as tools/list has it.
func (t tool) entry() mcp.Tool {
	out := mcp.Tool{
		Name: t.name, Title: t.title, Description: t.about,
		RawInputSchema: raw(t.in.schema()), RawOutputSchema: raw(t.out.schema()), Annotations: t.annotations(),
	}
	out.Annotations.Title = t.title
	if t.hints&backgrounds != 0 {
		out.Execution = &mcp.ToolExecution{TaskSupport: mcp.TaskSupportOptional}
	}
	return out
}

func (t tool) annotations() mcp.ToolAnnotation {
	on := func(h hints) *bool { b := t.hints&h != 0; return &b }
	return mcp.ToolAnnotation{ReadOnlyHint: on(reads), DestructiveHint: on(destroys), IdempotentHint: on(repeats), OpenWorldHint: on(reachesOut)}
}

func raw(schema members) json.RawMessage {
	b, err := json.Marshal(schema)
	if err != nil {
		panic("mcp: a schema can't be written as JSON: " + err.Error()) // our bug, found by any test
	}
	return b
}

// Fields that several tools have.

func namespaceField() field {
	return text("namespace", `Whose sessions, packages, secrets, limits and log it is for. Default: "default".`).upTo(64)
}

func sessionField(about string) field { return text("session_id", about).upTo(64) }

func languageField(about string) field {
	return choice("language", about, "python", "node", "typescript", "shell", "r").spelling(map[string]string{
		"python3": "python", "py": "python", "ipython": "python",
		"nodejs": "node", "javascript": "node", "js": "node", "node.js": "node", "ecmascript": "node",
		"ts": "typescript", "bash": "shell", "sh": "shell", "zsh": "shell", "rscript": "r",
	})
}

func backendField() field {
	return choice("backend", "What contains the code. Default: the operator's choice; list_runtimes tells what each offers.",
		"process", "podman", "docker")
}

func domainsField(about string) field {
	return list("allowed_domains", about, text("", `A host: "example.com", "*.example.com" or "example.com:5432".`).upTo(300)).upTo(100)
}

func limitFields() form {
	return form{
		integer("max_ram_mb", "MB of memory, for all processes together.", 1, 1<<20),
		number("max_cpu_cores", "Cores that it may use.", 0.01, 1024),
		number("timeout_seconds", "Seconds for a run, or a session's call.", 0.001, 86400),
		integer("max_processes", "Processes and threads, beside the interpreter's.", 1, 1<<16),
		integer("max_output_bytes", "Bytes that are kept of stdout, and of stderr.", 1, 1<<30),
	}
}

func limitsField() field {
	return object("resource_limits", "Limits, at most the operator's caps. Default: what the operator or set_resource_limits has set.",
		limitFields()...)
}
