package run

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Report prints notes on a result to stderr, and determines the exit code of run.
type Report struct {
	*command.Streams
	Result   pipeline.Outcome
	quiet    bool
	inResult bool   // the output is only in the result
	saved    string // directory of the saved artifacts
	// unreached replaces ReportUnreached; may be nil.
	unreached func([]egress.Record)
}

// interruptedExit returns the exit code of a run that ended because of a signal or an output error rather than its program,
// or 0.
func (r Report) interruptedExit(cause, output error) (code int, why string) {
	var signal command.Interruption
	switch {
	case errors.As(cause, &signal):
		return exit.Signalled + int(signal.Signal), "interrupted by " + signal.Error() + ", and the run was ended"
	case r.Result.Ended == backends.EndedCancelled && r.Result.Interrupted != "":
		sent := map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM}[r.Result.Interrupted]
		return exit.Signalled + int(sent), "interrupted by " + r.Result.Interrupted + ", and the run was ended"
	case errors.Is(cause, command.ErrNoReader):
		return exit.Signalled + 13, "" // SIGPIPE, which needs no message
	case output != nil && !errors.Is(output, command.ErrUnread): // reported elsewhere; the program's own end says more
		return exit.Refused, output.Error()
	}
	return 0, ""
}

// writeEnd prints the notes on a result and returns its exit code as an error.
func (r Report) writeEnd() error {
	if r.inResult { // even with --quiet
		r.ReportCut(": --output BYTES keeps more")
	}
	if !r.quiet {
		r.writeNotes()
	}
	if !r.quiet && terminal.IsTerminal(r.Err) {
		r.Messagef("%s", r.summaryLine())
	}
	unsaved := ""
	if r.Result.ArtifactsFailed != "" {
		unsaved = "the script ended, but its artifacts could not all be saved: " + terminal.Visible(r.Result.ArtifactsFailed)
	}
	if unsaved != "" && r.Result.Ended != backends.EndedOK { // the script's own failure matters more
		r.Messagef("%s", unsaved)
	}
	switch r.Result.Ended {
	case backends.EndedOK:
		if unsaved != "" {
			return &exit.Error{Code: exit.Refused, Text: unsaved}
		}
		return nil
	case backends.EndedTimeout:
		return exit.Silent(exit.Timeout)
	case backends.EndedOOM, backends.EndedLimit:
		return exit.Silent(exit.Signalled + 9)
	}
	if r.Result.ExitCode == 0 { // cancelled without a cause: at least not a success
		return exit.Silent(exit.Refused)
	}
	return exit.Silent(r.Result.ExitCode)
}

// WriteWarnings prints warnings that also apply to runs without an end, whose output may have been printed already.
func (r Report) WriteWarnings() {
	if r.quiet {
		return
	}
	for _, w := range r.Result.Warnings {
		r.Messagef("warning: %s", terminal.Visible(w.String()))
	}
}

// writeNotes prints facts that the caller may not expect.
func (r Report) writeNotes() {
	res := &r.Result
	switch res.Ended {
	case backends.EndedTimeout, backends.EndedOOM, backends.EndedLimit:
		r.Messagef("the script was ended after %.1f s: %s", res.WallMS/1000, HowEnded(res))
	case backends.EndedSignal:
		r.Messagef("the script was killed by %s", res.Signal)
	}
	for _, a := range res.Artifacts {
		if a.Withheld != "" {
			r.Messagef("artifact %s is withheld: %s", terminal.Visible(a.Name), terminal.Visible(a.Withheld))
		}
	}
	if res.Dropped > 0 {
		r.Messagef("%d artifacts were left out: %s", res.Dropped, terminal.Visible(res.Why))
	}
	if r.unreached != nil {
		r.unreached(res.Egress)
	} else {
		r.ReportUnreached()
	}
	for _, h := range res.Hints {
		r.Messagef("hint: %s", terminal.Visible(h.String()))
	}
}

// ReportCut prints how much output the result lacks, followed by the hint more, and reports whether any is missing.
func (r Report) ReportCut(more string) bool {
	for i, cut := range []int64{r.Result.StdoutCut, r.Result.StderrCut} {
		if cut > 0 {
			r.Messagef("the last %d bytes of %s were cut off%s", cut, []string{"stdout", "stderr"}[i], more)
		}
	}
	return r.Result.StdoutCut+r.Result.StderrCut > 0
}

// ReportUnreached prints the names that the script could not reach.
func (r Report) ReportUnreached() {
	const limit = 5
	var printed, more int
	for _, d := range r.Result.Egress {
		switch {
		case d.Allowed && !d.Failed:
		case printed == limit:
			more++
		case d.Failed:
			printed++
			r.Messagef("%s can't be reached: %s", terminal.Visible(d.Name), terminal.Visible(d.Reason))
		case d.Ask == "":
			printed++
			r.Messagef("egress refused: %s", terminal.Visible(d.Reason))
		default:
			printed++
			r.Messagef("wanted: %s; allow with --allow %s (egress refused: %s)", terminal.Visible(d.Host()), terminal.Visible(d.Ask),
				terminal.Visible(d.Why()))
		}
	}
	if more > 0 {
		r.Messagef("%s more could not be reached; --json lists them", terminal.Count(more, "name"))
	}
}

// HowEnded describes in a few words how a run ended.
func HowEnded(res *pipeline.Outcome) string {
	switch res.Ended {
	case backends.EndedOOM:
		return "out of memory"
	case backends.EndedLimit:
		return "limit of " + res.Limit
	case backends.EndedExit:
		return fmt.Sprintf("exit %d", res.ExitCode)
	case backends.EndedSignal:
		return res.Signal
	}
	return res.Ended
}

// summaryLine returns the last line: end, duration, containment, artifacts and id.
func (r Report) summaryLine() string {
	res := &r.Result
	parts := []string{
		fmt.Sprintf("%s in %.2f s", HowEnded(res), res.WallMS/1000),
		res.Profile + ": " + strings.Join(res.LayersInForce(), " "),
	}
	if n := len(res.Artifacts); n > 0 {
		where := " (keep with --artifacts DIR)"
		if r.saved != "" {
			where = " in " + r.saved
		}
		parts = append(parts, terminal.Count(n, "artifact")+": "+artifactNames(res.Artifacts)+where)
	}
	return strings.Join(append(parts, "run "+res.ID), " | ")
}

func artifactNames(artifacts []signer.Artifact) string {
	const limit = 3
	var list []string
	for i, a := range artifacts {
		if i == limit {
			list = append(list, "...")
			break
		}
		list = append(list, terminal.Visible(a.Name))
	}
	return strings.Join(list, ", ")
}
