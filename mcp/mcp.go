// Package mcp serves the pipeline to agents over the Model Context Protocol: 23 tools, and what
// runs left behind as resources.
//
// A tool builds a request, hands it to the pipeline, and tells what became of it as text and images for the model, and
// to programs that want it as structured content with the same facts, too. A program that fails is a result; an error
// is ours, and says what to do about it.
package mcp

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/shelf"
)

// Config is what a server is made of.
type Config struct {
	Pipeline *pipeline.Pipeline

	Log       Log              // the audit log; nil: audit_execution says that there is none
	Shelf     *shelf.Shelf     // outputs and artifacts of late; nil keeps none
	Approvals *approval.Broker // what people are asked; nil: request_egress is refused
	User      string           // of the operating system whose client it is, who answers in its dialogs; "" is unknown

	// Backends are the names of those that callers may choose, the default first; list_runtimes tells of all.
	Backends []string
	// Namespace is the only one that callers may use. "" lets them name one, "default" if they don't.
	Namespace string
	// Structured gives every client structuredContent and outputSchema, beside the text. Else those get it of which is
	// known that it takes nothing away from their model.
	Structured bool
	ToolsOn    bool         // tools that policy has off are not listed; whoever calls one is refused, as always
	Version    string       // of the program, as clients show it
	Logger     *slog.Logger // must not write to stdout; nil logs nothing
}

// Log is the audit log, as far as it is read here.
type Log interface {
	Rows(ctx context.Context, f audit.Filter) iter.Seq2[audit.Row, error]
	Receipt(ctx context.Context, run string) ([]byte, error)
}

// Server answers clients. Serve may be called several times, also at once.
type Server struct {
	cfg        Config
	log        *slog.Logger
	mcp        *server.MCPServer
	background []string // tools that may run as a task
	runs       runs

	lastCalls, lastWrite time.Duration // at the end of a client
	maxAwait             time.Duration // for a person, in one call
}

// listsLast is how long clients of the 2026-07-28 protocol may keep what does not change while a server runs: its tools,
// instructions, and what a run has left.
const listsLast = 5 * time.Minute

// New returns a server that works as cfg says.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Logger, lastCalls: lastCalls, lastWrite: lastWrite, maxAwait: maxAwait}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	hooks := &server.Hooks{}
	hooks.AddBeforeCallTool(func(_ context.Context, _ any, r *mcp.CallToolRequest) { r.Params.Task = nil }) // see task.go
	hooks.AddAfterListResources(s.listRuns)
	s.greet(hooks)
	hooks.AddAfterListTools(s.tailor)
	hooks.AddOnError(func(_ context.Context, _ any, method mcp.MCPMethod, _ any, err error) {
		s.log.Info("a request failed", "method", method, "error", err)
	})
	s.mcp = server.NewMCPServer("sandboxmcp", cfg.Version,
		server.WithTitle("sandboxmcp"),
		server.WithLogging(),
		server.WithRecovery(),
		server.WithResourceRecovery(),
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, false),
		server.WithCacheHints(listsLast.Milliseconds(), mcp.CacheScopePrivate),
		server.WithMethodCacheHints(mcp.MethodResourcesList, 0, mcp.CacheScopePrivate), // the next run is in it
		server.WithHooks(hooks),
	)
	for _, t := range s.tools() {
		s.mcp.AddTool(s.listed(t), s.handler(t))
		if t.hints&backgrounds != 0 {
			s.background = append(s.background, t.name)
		}
	}
	s.addResources()
	return s
}

// Serve answers one client until stdin ends or ctx does: then calls under way are cancelled, and it
// returns when all have ended. What the client sends is never an error of Serve; neither is a client
// that went away.
//
// A Read of stdin that blocks may return after Serve has: nothing can interrupt it.
func (s *Server) Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := newConn(s, cancel)
	if err := s.mcp.RegisterSession(ctx, c.session); err != nil {
		return err // two sessions of one random id
	}
	defer s.mcp.UnregisterSession(context.WithoutCancel(ctx), c.session.SessionID())
	return c.serve(s.mcp.WithContext(ctx, c.session), stdin, stdout)
}

// handler makes a handler of the library's out of a tool's.
func (s *Server) handler(t tool) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		given, err := s.offered(t.in).check(rawArguments(request))
		if err != nil {
			return s.result(ctx, failure(err)), nil
		}
		c := &call{args: given, request: request, progress: startProgress(ctx, s.mcp, request)}
		defer c.progress.stop()
		awaitTurn(ctx)
		a, err := t.run(ctx, c)
		if err != nil {
			a = failure(err)
		}
		return s.result(ctx, a), nil
	}
}

// call is one call of a tool.
type call struct {
	args
	request  mcp.CallToolRequest
	progress *progress
}
