package control

import (
	"errors"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// A run of the command line can be handed over to a server that would do all as the client's own process does: what
// that depends on is in Config.Alike and in a header of the request, and must be equal. The request is a [Handed]. The
// answer 101 says that the server is ready to run it, and nothing is run until the client has sent one byte with three
// pipes: the program's standard input, to read, and its outputs, to write. From then on both send JSON values of the
// type told, until the result. Pipes carry the output, so a client that reads slowly holds up its own run alone, and a
// signal overtakes what waits in them. A connection that ends is the end of the run.

// alikeHeader carries the settings that a client's own process would run by.
const alikeHeader = "Sandboxmcp-Alike"

const upgrade = "sandboxmcp-run"

// ready is all that a server says before it has the pipes.
const ready = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + "\r\n\r\n"

// Submission is a run that a client hands over.
type Submission struct {
	Request run.Request
	Grace   time.Duration // see pipeline.Stop
	Beside  bool          // the client can say what lies beside the code
}

// runMessage is one message about a run that was handed over. Exactly one of the first fields is set.
type runMessage struct {
	// From the client.
	Signal int          `json:"signal,omitempty"` // for the program, answered with Taken
	Cancel string       `json:"cancel,omitempty"` // why the run is to end
	Found  *lintResults `json:"found,omitempty"`  // the answer to Beside
	// From the server.
	Taken  *bool             `json:"taken,omitempty"`  // whether the program got the signal
	Beside *string           `json:"beside,omitempty"` // a name to look for beside the code
	Result *pipeline.Outcome `json:"result,omitempty"` // the last message; its output went through the pipes

	Failed    bool                `json:"failed,omitempty"`     // the result has no outcome
	NoProgram *backends.NoProgram `json:"no_program,omitempty"` // why it has none, if it is that
}

// lintResults holds the results of run.Request.Beside.
type lintResults struct {
	Path string `json:"path"`
	OK   bool   `json:"ok"`
}

// ErrLost is the error of a run whose server has ended, and the run with it.
var ErrLost = errors.New("the server that this ran in has ended, and so has the run")

var (
	errUnlike = errors.New("this server would run it in another way than the client")
	errFull   = errors.New("this run would have to wait")
	errGone   = errors.New("the command line that wanted it has gone")
)
