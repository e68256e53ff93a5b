// Package rpc speaks the Model Context Protocol: transports, versions, requests under way, progress, tasks, and what a
// client's user is asked. It knows no tools: a Config has what answers their calls.
//
// A message comes as a line of standard input or as the body of a request, is parsed and admitted by the rules of its
// version, and noted as being under way, so that its client can cancel it. A goroutine of its own dispatches it by its
// method and encodes the answer; what else there is to say of it, such as progress and questions, goes to the same
// stream before that.
//
// The files in order, each of which calls those behind it: rpc, http, http_sse, http_plain, http_body, http_session,
// http_response, stdio, task, dispatch, plain, era, progress, client, message, line, find_id, held.
package rpc

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// Config holds what a server offers.
type Config struct {
	Version string
	Logger  *slog.Logger // must not write to stdout; nil logs nothing

	Instructions func(context.Context) string
	// Methods answer what is no call of a tool, and not about the connection: lists, resources and prompts.
	Methods map[mcp.MCPMethod]func(*Message) (mcp.ResultMetadata, *Fault)

	Background []string                 // tools that may run as a task
	WhyNoTool  func(name string) string // "" is that there is one of that name
	// Prepare checks the arguments of a call in the order in which calls come, before any of them runs. It returns the
	// context to run it in.
	Prepare func(context.Context, *Message) (context.Context, Call)
}

// Call is a call of a tool that can run.
type Call struct {
	Run   func(context.Context) *mcp.CallToolResult
	Leave func() // is called when it has run, or will not
}

// Server answers clients. Serve may be called several times, also at once.
type Server struct {
	cfg Config
	log *slog.Logger

	LastCalls time.Duration // how long calls may take to end by themselves after stdin has
	LastWrite time.Duration // how long a client that does not read can hold up the end
}

// New returns a server that works as cfg says.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), LastCalls: lastCalls, LastWrite: lastWrite}
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
