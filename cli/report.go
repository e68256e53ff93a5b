package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// report is what run says about a result on stderr, and with which code it exits.
type report struct {
	*program
	result   pipeline.Result
	quiet    bool
	inResult bool   // the output is in the result alone
	saved    string // the directory with the artifacts
}

// interrupted returns the exit code of a run that ended because of what happened to us, not to its
// program; 0 if nothing did.
func (r report) interrupted(cause, output error) (code int, why string) {
	var signal command.Interruption
	switch {
	case errors.As(cause, &signal):
		return exit.Signalled + int(signal.Signal), "interrupted by " + signal.Error() + ", and the run was ended"
	case r.result.Ended == backends.EndedCancelled && r.result.Interrupted != "":
		sent := map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM}[r.result.Interrupted]
		return exit.Signalled + int(sent), "interrupted by " + r.result.Interrupted + ", and the run was ended"
	case errors.Is(cause, command.ErrNoReader):
		return exit.Signalled + 13, "" // SIGPIPE, which nobody needs to be told about
	case output != nil:
		return exit.Refused, output.Error()
	}
	return 0, ""
}

// end says what the script's own output does not, and returns its exit code as an error.
func (r report) end() error {
	r.cuts()
	if !r.quiet {
		r.notes()
	}
	if !r.quiet && terminal.IsTerminal(r.Err) {
		r.Say("%s", r.summary())
	}
	unsaved := r.unsaved()
	if unsaved != "" && r.result.Ended != backends.EndedOK { // the script's own failure says more
		r.Say("%s", unsaved)
	}
	switch r.result.Ended {
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
	if r.result.ExitCode == 0 { // cancelled, though nothing cancelled it: not a success at least
		return exit.Silent(exit.Refused)
	}
	return exit.Silent(r.result.ExitCode)
}

// unsaved says why artifacts are missing, if any are.
func (r report) unsaved() string {
	if r.result.ArtifactsFailed == "" {
		return ""
	}
	return "the script ended, but its artifacts could not all be saved: " + terminal.Visible(r.result.ArtifactsFailed)
}

// warnings are also about runs without an end: their output may have been shown already.
func (r report) warnings() {
	if r.quiet {
		return
	}
	for _, w := range r.result.Warnings {
		r.Say("warning: %s", terminal.Visible(w))
	}
}

// notes are about what is not as the script's caller may think.
func (r report) notes() {
	res := &r.result
	switch res.Ended {
	case backends.EndedTimeout, backends.EndedOOM, backends.EndedLimit:
		r.Say("the script was ended after %.1f s: %s", res.WallMS/1000, howEnded(res))
	case backends.EndedSignal:
		r.Say("the script was killed by %s", res.Signal)
	}
	for _, a := range res.Artifacts {
		if a.Withheld != "" {
			r.Say("artifact %s is withheld: %s", terminal.Visible(a.Name), terminal.Visible(a.Withheld))
		}
	}
	if res.ArtifactsDropped > 0 {
		r.Say("%d artifacts were left out: %s", res.ArtifactsDropped, terminal.Visible(res.ArtifactsWhy))
	}
	r.unreached()
	for _, h := range res.Hints {
		r.Say("hint: %s", terminal.Visible(h))
	}
}

// cuts says what of the output is in no result, also to who wants to hear nothing else.
func (r report) cuts() {
	for _, stream := range []struct {
		name string
		cut  int64
	}{{"stdout", r.result.StdoutCut}, {"stderr", r.result.StderrCut}} {
		if stream.cut > 0 && r.inResult {
			r.Say("the last %d bytes of %s were cut off: --output BYTES keeps more", stream.cut, stream.name)
		}
	}
}

// unreached lists the names that the script could not reach.
func (r report) unreached() {
	const limit = 5
	var printed, more int
	for _, d := range r.result.Egress {
		switch {
		case d.Allowed && !d.Failed:
		case printed == limit:
			more++
		case d.Failed:
			printed++
			r.Say("%s can't be reached: %s", terminal.Visible(d.Name), terminal.Visible(d.Reason))
		case d.Ask == "":
			printed++
			r.Say("egress refused: %s", terminal.Visible(d.Reason))
		default:
			printed++
			r.Say("wanted: %s; allow with --allow %s (egress refused: %s)", terminal.Visible(d.Host()), terminal.Visible(d.Ask), terminal.Visible(d.Why()))
		}
	}
	if more > 0 {
		r.Say("%s more could not be reached; --json lists them", terminal.Count(more, "name"))
	}
}

func howEnded(res *pipeline.Result) string {
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

// summary is the last line: how it ended, how long it took, what held it, what it left, its id.
func (r report) summary() string {
	res := &r.result
	parts := []string{
		fmt.Sprintf("%s in %.2f s", howEnded(res), res.WallMS/1000),
		res.Profile + ": " + strings.Join(res.LayersInForce(), " "),
	}
	if n := len(res.Artifacts); n > 0 {
		parts = append(parts, terminal.Count(n, "artifact")+": "+names(res.Artifacts)+r.where())
	}
	return strings.Join(append(parts, "run "+res.ID), " | ")
}

func (r report) where() string {
	if r.saved == "" {
		return " (keep with --artifacts DIR)"
	}
	return " in " + r.saved
}

func names(artifacts []signer.Artifact) string {
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

// A pipe writes to where our own output goes. When its reader has gone, as head(1) does, the run
// is ended: other programs die of SIGPIPE then.
type pipe struct {
	w      io.Writer
	broken context.CancelCauseFunc
	mu     sync.Mutex
	err    error // of the first write that failed
}

func (o *pipe) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err == nil {
		return n, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	if errors.Is(err, syscall.EPIPE) {
		o.broken(command.ErrNoReader)
	}
	return n, err
}

func (o *pipe) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
