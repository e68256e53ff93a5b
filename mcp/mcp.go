// Package mcp serves the pipeline to agents over the Model Context Protocol: 23 tools, each in a file of its name.
//
// New builds a server of the tools in the table. A message comes in by mcp/rpc, which knows the protocol alone. A
// call's arguments are checked against the form of its tool, and it takes its place behind earlier calls of its
// session. The tool's handler builds a request, has the pipeline carry it out, and hands back what mcp/answer makes of
// the outcome. Where a person must agree, mcp/ask asks; what runs left is read by way of mcp/resource. A program that
// fails is a result; an error is ours, and says what to do about it.
//
// The files in order, each of which calls those behind it: mcp, tools, create_session, terminate_session, execute_code,
// install_package, bridge_data, set_resource_limits, inspect_state, get_artifacts, validate_code, list_runtimes,
// sandbox_stats, request_egress, audit_execution, web_search, browser_fetch, fetch_webpage, host_exec, host_file_copy,
// host_file_write, host_file_read, host_file_list, request_host_access, list_host_access, call, arguments, tool_off,
// nearest_tool, instructions.
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

// Config holds the parts of a server.
type Config struct {
	Pipeline *pipeline.Pipeline

	Log       Log              // the audit log; nil: audit_execution says that there is none
	Results   *results.Store   // outputs and artifacts of late; nil keeps none
	Approvals *approval.Broker // what people are asked; nil: request_egress is refused
	User      string           // of the operating system whose client it is, who answers in its dialogs; "" is unknown

	// Backends are the names of those that callers may choose, the default first; list_runtimes tells of all.
	Backends []string
	// Namespace is the only one that callers may use. "" lets them name one, "default" if they don't.
	Namespace string
	// Structured gives every client structuredContent and outputSchema, beside the text. Else those get it of which is
	// known that it takes nothing away from their model.
	Structured bool
	Skills     *skills.Directory // that clients have as resources and prompts; nil has none
	ToolsOn    bool              // tools that policy has off are not listed; whoever calls one is refused, as always
	Version    string            // of the program, as clients show it
	Logger     *slog.Logger      // must not write to stdout; nil logs nothing
}

// Server answers clients.
type Server struct {
	*rpc.Server
	cfg    Config
	has    []tool
	list   []mcp.Tool // as clients see them, by name
	ask    ask.Asker
	answer answer.Renderer
	store  *resource.Catalog
}

// New returns a server that works as cfg says.
func New(cfg Config) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{
		cfg:    cfg,
		ask:    ask.Asker{Approvals: cfg.Approvals, Namespace: cfg.Namespace, User: cfg.User, Log: cfg.Logger},
		answer: answer.Renderer{Results: cfg.Results, Asks: cfg.Approvals != nil, Namespace: cfg.Namespace},
		store:  &resource.Catalog{Results: cfg.Results, Skills: cfg.Skills, Namespace: cfg.Namespace, Log: cfg.Logger},
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
		Version: cfg.Version, Logger: cfg.Logger, Instructions: s.instructions, Methods: methods, Background: background, WhyNoTool: s.whyNoTool, Prepare: s.prepare,
	})
	return s
}

// NewHTTP returns a handler of HTTP with a server for each identity and each of its namespaces. What it serves must
// have an identity in its context.
func NewHTTP(cfg Config) *rpc.HTTP {
	return rpc.NewHTTP(cfg.Namespace, func(namespace, user string) *rpc.Server {
		cfg := cfg
		cfg.Namespace, cfg.User = namespace, user
		return New(cfg).Server
	})
}

// runsOther are the tools that take the languages of the configuration, too.
var runsOther = []string{"create_session", "execute_code", "validate_code"}

func (s *Server) add(t tool) {
	if s.cfg.Namespace != "" { // which is understood where there is only one, too
		t.In = t.In.Without("namespace")
	}
	if slices.Contains(runsOther, t.Name) && s.cfg.Pipeline != nil {
		t.In = t.In.Offering("language", containment.OtherLanguages(s.cfg.Pipeline)...)
	}
	s.has, s.list = append(s.has, t), append(s.list, s.entry(t))
	slices.SortFunc(s.list, func(a, b mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
}
