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
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit"
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

// Log reads the audit log.
type Log interface {
	Rows(ctx context.Context, f audit.Filter) iter.Seq2[audit.Row, error]
	Receipt(ctx context.Context, run string) ([]byte, error)
}

// Server answers clients. Serve may be called several times, also at once.
type Server struct {
	cfg        Config
	log        *slog.Logger
	has        []tool
	list       []mcp.Tool // as clients see them, by name
	background []string   // tools that may run as a task
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
	for _, t := range s.tools() {
		s.add(t)
	}
	return s
}

// runsOther are the tools that take the languages of the configuration, too.
var runsOther = []string{"create_session", "execute_code", "validate_code"}

func (s *Server) add(t tool) {
	if s.cfg.Namespace != "" { // which is understood where there is only one, too
		t.In = t.In.Without("namespace")
	}
	if slices.Contains(runsOther, t.Name) && s.cfg.Pipeline != nil {
		t.In = t.In.Offering("language", s.cfg.Pipeline.OtherLanguages()...)
	}
	s.has, s.list = append(s.has, t), append(s.list, s.entry(t))
	slices.SortFunc(s.list, func(a, b mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	if t.Hints&backgrounds != 0 {
		s.background = append(s.background, t.Name)
	}
}

// Serve answers one client until stdin ends or ctx does: then calls under way are cancelled, and it
// returns when all have ended. What the client sends is never an error of Serve; neither is a client
// that went away.
//
// A Read of stdin that blocks may return after Serve has: nothing can interrupt it.
func (s *Server) Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return newConn(s, &heldBytes{max: maxHeld}, cancel).serve(ctx, stdin, stdout)
}
