package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

const aboutHostExec = `Runs one command on the host, outside of any sandbox, if the operator or a person has allowed exactly this. ` +
	`There is no shell: words and quotes only, no pipes, variables or redirections. Prefer execute_code.`

type hostExecArgs struct {
	Command   string  `json:"command" about:"The command as words, such as: git status --short" range:"1..32768" required:"true"`
	Directory string  `json:"directory" about:"The absolute working directory. Default: the first allowed directory." range:"..4096"`
	Stdin     string  `json:"stdin" about:"Text for its standard input. Default: empty."`
	Timeout   float64 `json:"timeout" about:"Time limit in seconds." range:"0.1..3600" default:"60"`
	inNamespace
}

type hostExecFacts struct {
	answer.Common
	ExitCode int    `json:"exit_code" about:"The exit code; 0 is success."`
	Ended    string `json:"ended,omitempty" about:"How it ended: ok, exit, signal or timeout."`
	Stdout   string `json:"stdout,omitempty" about:"Its standard output, or head and tail if it is long."`
	Stderr   string `json:"stderr,omitempty" about:"Its standard error, or head and tail if it is long."`
	Pattern  string `json:"pattern,omitempty" about:"The pattern that allowed it."`
}

func (s *Server) hostExec(ctx context.Context, c *call, a *hostExecArgs) (*answer.Answer, error) {
	q := host.Exec{Namespace: c.namespace, Command: a.Command, Directory: a.Directory, Timeout: seconds(a.Timeout)}
	if a.Stdin != "" {
		q.Stdin = strings.NewReader(a.Stdin)
	}
	return do(ctx, s, q, renderHostExec)
}

// renderHostExec returns the answer about a host command: its exit code and output.
func renderHostExec(end host.ExecEnd, res pipeline.Outcome) *answer.Answer {
	f := &hostExecFacts{ExitCode: res.ExitCode, Ended: res.Ended, Pattern: end.Pattern}
	text := fmt.Sprintf("%s, allowed by %s", answer.EndOf(res), safetext.Model(end.Pattern))
	forStdout, forStderr := answer.StreamShares(res)
	for _, one := range []struct {
		name, all string
		max       int
		cut       int64
		to        *string
	}{{"stdout", res.Stdout, forStdout, res.StdoutCut, &f.Stdout}, {"stderr", res.Stderr, forStderr, res.StderrCut, &f.Stderr}} {
		if one.all == "" {
			continue
		}
		*one.to = answer.Excerpt(one.all, one.max, "")
		text += fmt.Sprintf("\n%s (%d bytes):\n%s", one.name, len(one.all), strings.TrimSuffix(*one.to, "\n"))
		if one.cut > 0 {
			text += fmt.Sprintf("\nthe last %d bytes of %s are lost: the first %d are stored", one.cut, one.name, host.DefaultHostOutput)
		}
	}
	if res.Stdout == "" && res.Stderr == "" {
		text += "\nno output"
	}
	if res.Ended == backends.EndedTimeout {
		text += "\nhint: raise timeout, up to host.timeout_seconds in the operator's configuration"
	}
	for _, w := range res.Warnings {
		text += "\nwarning: " + safetext.Model(w.In(answer.WordsOf("host_exec")))
	}
	return &answer.Answer{Text: text + "\nrequest_id: " + res.ID, Facts: f}
}
