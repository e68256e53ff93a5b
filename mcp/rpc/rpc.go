// Package rpc speaks the Model Context Protocol: transports, versions, cancellation, progress, tasks, and questions
// to a client's user. It knows no tools: a Config supplies them.
//
// A message arrives as a line of standard input or as the body of an HTTP request. It is parsed, admitted by the
// rules of its protocol version, and registered, so that its client can cancel it. Its arguments are checked by the
// reading goroutine (Config.Prepare), in the order of arrival. A goroutine per request dispatches it by method and
// encodes the response. Progress and questions go to the same stream before the response.
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

// Config has the tools and methods of a server.
type Config struct {
	Version string
	Logger  *slog.Logger // must not write to stdout; nil logs nothing

	Instructions func(context.Context) string
	// Methods handle lists, resources and prompts: all methods except tools/call and those of the connection.
	Methods map[mcp.MCPMethod]func(*Message) (mcp.ResultMetadata, *Fault)

	Background []string                 // tools that may run as a task
	WhyNoTool  func(name string) string // returns "" if the tool exists
	// Prepare checks the arguments of calls, in their order of arrival, before any of them runs. It returns the
	// context for the call.
	Prepare func(context.Context, *Message) (context.Context, Call)
}

// Call is a tool call that is ready to run.
type Call struct {
	Run    func(context.Context) *mcp.CallToolResult
	Finish func() // called after Run, or instead of it
}

// Server serves clients. Serve may be called several times, also concurrently.
type Server struct {
	cfg Config
	log *slog.Logger

	CallGrace  time.Duration // how long calls may continue after stdin has ended
	WriteGrace time.Duration // how long a client that does not read may delay the end
}

func New(cfg Config) *Server {
	return &Server{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), CallGrace: callGrace, WriteGrace: writeGrace}
}

// Serve serves one client until stdin or ctx ends. It then cancels running calls and returns when all have ended.
// Invalid input and a disconnected client are not errors.
//
// A blocking Read of stdin may return after Serve has: nothing can interrupt it.
func (s *Server) Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return newConn(s, &heldBytes{max: maxHeld}, cancel).serveLines(ctx, stdin, stdout)
}
