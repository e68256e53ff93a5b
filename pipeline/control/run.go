package control

import (
	"errors"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// The command line can hand a run over to a server that would run it exactly as the client's own process would:
// everything that affects this is in Config.Alike and in a header of the request, and must be equal. The request is a
// [Submission]. The answer 101 means that the server is ready; the run starts when the client has sent one byte with
// three pipes: the program's standard input, to read, and its outputs, to write. From then on both sides send
// [runMessage] values as JSON, until the result. Pipes carry the output, so a slow client blocks only its own run,
// and a signal overtakes buffered output. The end of the connection ends the run.

// alikeHeader carries the fingerprint of the client's settings.
const alikeHeader = "Sandboxmcp-Alike"

const upgrade = "sandboxmcp-run"

// ready is the server's answer before it has the pipes.
const ready = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + "\r\n\r\n"

// Submission is a run that a client hands over.
type Submission struct {
	Request run.Request
	Grace   time.Duration // see pipeline.Stopper
	Beside  bool          // the client can look for files next to the code
}

// runMessage is one message about a handed-over run. Exactly one of the fields, except the last two, is set.
type runMessage struct {
	// From the client.
	Signal int          `json:"signal,omitempty"` // signal for the program, answered with Taken
	Cancel string       `json:"cancel,omitempty"` // reason to end the run
	Found  *lintResults `json:"found,omitempty"`  // the answer to Beside
	// From the server.
	Taken  *bool             `json:"taken,omitempty"`  // whether the program received the signal
	Beside *string           `json:"beside,omitempty"` // a name to look for next to the code
	Result *pipeline.Outcome `json:"result,omitempty"` // last message; the pipes carry its output

	Failed    bool                `json:"failed,omitempty"`     // the result is an error
	NoProgram *backends.NoProgram `json:"no_program,omitempty"` // the missing program, if that is the reason
}

// lintResults holds the results of run.Request.Beside.
type lintResults struct {
	Path string `json:"path"`
	OK   bool   `json:"ok"`
}

// ErrLost is the error of a run whose server ended, which ends the run.
var ErrLost = errors.New("the server of this run has ended, and the run with it")

var (
	errUnlike = errors.New("this server has other settings than the client")
	errFull   = errors.New("this run would have to queue")
	errGone   = errors.New("the command line of this run has gone")
)
