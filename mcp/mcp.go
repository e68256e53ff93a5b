// Package mcp serves the pipeline to agents over the Model Context Protocol: 23 tools, each in a file of its name.
//
// New builds a server from the table of tools. Package mcp/rpc receives a message and speaks the protocol. The
// arguments of a call are checked against the form of its tool, and it gets its place in the line of its session
// (call), where it waits in package pipeline/run (queue) or session.
// The tool's handler builds a request, runs it in the pipeline, and returns the outcome as rendered by mcp/answer.
// Package mcp/ask asks for a person's approval; mcp/resource reads the results of runs. A failed program is a result;
// an error is the server's, and says what to do about it.
//
// The files in order, each of which calls those behind it: mcp, tools, create_session, terminate_session,
// execute_code, install_package, bridge_data, set_resource_limits, inspect_state, get_artifacts, validate_code,
// list_runtimes, sandbox_stats, request_egress, audit_execution, web_search, browser_fetch, fetch_webpage, host_exec,
// host_file_copy, host_file_write, host_file_read, host_file_list, request_host_access, changes, list_host_access, call,
// arguments, missing_tool, instructions.
package mcp

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/ask"
	"github.com/sandboxmcp/sandboxmcp/mcp/resource"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/mcp/skills"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

// Config has the parts of a server.
type Config struct {
	Pipeline *pipeline.Pipeline

	Log       Log              // the audit log; nil: audit_execution is refused
	Results   *results.Store   // recent outputs and artifacts; nil stores none
	Approvals *approval.Broker // questions to people; nil: request_egress is refused
	User      string           // operating system user of the client, who answers in its dialogs; "" is unknown

	// Backends are the names that callers may choose, the default first; list_runtimes describes them all.
	Backends []string
	// Namespace is the only namespace that callers may use. With "" they may name one; the default is "default".
	Namespace string
	// Structured sends every client structuredContent and outputSchema, besides the text. Otherwise only clients get
	// them that are known to pass on the text as well.
	Structured bool
	Skills     *skills.Directory // resources and prompts; nil has none
	ToolsOn    bool              // tools/list omits tools that policy has turned off; a call of one is refused in any case
	Version    string            // of the program, for clients to display
	Logger     *slog.Logger      // must not write to stdout; nil logs nothing
}

// Server serves clients.
type Server struct {
	*rpc.Server
	cfg    Config
	has    []tool
	list   []mcp.Tool // as in tools/list, by name
	ask    ask.Asker
	answer answer.Renderer
	store  *resource.Catalog
}

func New(cfg Config) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{
		cfg:    cfg,
		ask:    ask.Asker{Approvals: cfg.Approvals, Namespace: cfg.Namespace, User: cfg.User, Log: cfg.Logger},
		answer: answer.Renderer{Results: cfg.Results, Asks: cfg.Approvals != nil, Namespace: cfg.Namespace},
		store: &resource.Catalog{Results: cfg.Results, Skills: cfg.Skills, Namespace: cfg.Namespace, Log: cfg.Logger,
			Changes: func(namespace, id string) (string, error) { return changesOf(cfg.Pipeline, namespace, id) }},
	}
	var background []string
	for _, t := range s.tools() {
		s.add(t)
		if t.Hints&backgrounds != 0 {
			background = append(background, t.Name)
		}
	}
	methods := s.store.Methods()
	methods[mcp.MethodToolsList] = s.listTools
	s.Server = rpc.New(rpc.Config{
		Version: cfg.Version, Logger: cfg.Logger, Instructions: s.instructions, Methods: methods, Background: background, WhyNoTool: s.whyNoTool,
		Prepare: s.prepare,
	})
	return s
}

// NewHTTP returns a handler with one server per identity and namespace. The context of each request must have an
// identity.
func NewHTTP(cfg Config) *rpc.HTTP {
	return rpc.NewHTTP(cfg.Namespace, func(namespace, user string) *rpc.Server {
		cfg := cfg
		cfg.Namespace, cfg.User = namespace, user
		return New(cfg).Server
	})
}

// runsOther are the tools that accept the languages of the configuration.
var runsOther = []string{"create_session", "execute_code", "validate_code"}

func (s *Server) add(t tool) {
	if s.cfg.Namespace != "" { // which is still accepted
		t.In = t.In.Without("namespace")
	}
	if slices.Contains(runsOther, t.Name) && s.cfg.Pipeline != nil {
		t.In = t.In.WithChoices("language", containment.OtherLanguages(s.cfg.Pipeline)...)
	}
	s.has, s.list = append(s.has, t), append(s.list, s.entry(t))
	slices.SortFunc(s.list, func(a, b mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
}
