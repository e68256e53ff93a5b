package answer

import (
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

// Renderer renders the outcomes of runs.
type Renderer struct {
	Results   *results.Store // artifacts and output; nil stores none
	Asks      bool           // people can be asked for hosts
	Namespace string         // the only namespace that callers may use; "" allows several
}

// runReport builds the text and facts about one run.
type runReport struct {
	s     Renderer
	res   pipeline.Outcome
	f     *RunFacts
	text  strings.Builder
	extra []mcp.Content
}

func (t *runReport) writeLine(format string, a ...any) { fmt.Fprintf(&t.text, format+"\n", a...) }

// EndOf describes how and when a program ended.
func EndOf(res pipeline.Outcome) string {
	how := fmt.Sprintf("exit code %d", res.ExitCode)
	switch res.Ended {
	case backends.EndedSignal:
		how += ", killed by " + res.Signal
	case backends.EndedTimeout:
		return fmt.Sprintf("%s, timed out after %.2f s", how, res.WallMS/1000)
	case backends.EndedOOM:
		how += ", killed: out of memory"
	case backends.EndedLimit:
		how += ", ended by the limit of " + res.Limit
	case backends.EndedCancelled:
		how += ", cancelled"
	}
	return fmt.Sprintf("%s, after %.2f s", how, res.WallMS/1000)
}

// stored reports whether the result store has the run.
func (t *runReport) stored() bool {
	if t.s.Results == nil {
		return false
	}
	_, err := t.s.Results.Read(t.res.ID, "stdout", 0, 1)
	return err == nil
}

func (t *runReport) addLink(uri, name, about, mime string, size int64) {
	l := mcp.NewResourceLink(uri, name, about, mime)
	l.Size = &size
	t.extra = append(t.extra, l)
}
