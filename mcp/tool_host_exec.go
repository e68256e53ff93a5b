package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

func (s *Server) hostExec(ctx context.Context, c *call, a *hostExecArgs) (*answer, error) {
	q := pipeline.HostCommand{Namespace: c.namespace, Command: a.Command, Directory: a.Directory, Timeout: seconds(a.Timeout)}
	if a.Stdin != "" {
		q.Stdin = strings.NewReader(a.Stdin)
	}
	return do(ctx, s, q, ranOnHost)
}

// ranOnHost returns the answer about a command: its exit and its output.
func ranOnHost(end pipeline.HostEnd, res pipeline.Outcome) *answer {
	f := &hostExecFacts{ExitCode: res.ExitCode, Ended: res.Ended, Pattern: end.Pattern}
	text := fmt.Sprintf("%s, allowed by %s", endOf(res), readable(end.Pattern))
	forStdout, forStderr := shares(res)
	for _, one := range []struct {
		name, all string
		max       int
		cut       int64
		to        *string
	}{{"stdout", res.Stdout, forStdout, res.StdoutCut, &f.Stdout}, {"stderr", res.Stderr, forStderr, res.StderrCut, &f.Stderr}} {
		if one.all == "" {
			continue
		}
		*one.to = excerpt(one.all, one.max, "")
		text += fmt.Sprintf("\n%s (%d bytes):\n%s", one.name, len(one.all), strings.TrimSuffix(*one.to, "\n"))
		if one.cut > 0 {
			text += fmt.Sprintf("\nthe last %d bytes of %s are gone: %d are kept", one.cut, one.name, pipeline.DefaultHostOutput)
		}
	}
	if res.Stdout == "" && res.Stderr == "" {
		text += "\nit wrote nothing"
	}
	if res.Ended == backends.EndedTimeout {
		text += "\nhint: give it more with timeout; host.timeout_seconds in the operator's configuration is the most"
	}
	for _, w := range res.Warnings {
		text += "\nwarning: " + readable(w.In(wordsOf("host_exec")))
	}
	return &answer{text: text + "\nrequest_id: " + res.ID, facts: f}
}

func (s *Server) requestHostAccess(ctx context.Context, c *call, a *hostAccessArgs) (*answer, error) {
	q, err := s.cfg.Pipeline.AskForHost(ctx, c.namespace, a.Kind, a.Pattern, a.Reason)
	if err != nil {
		return nil, err
	}
	q.For = time.Duration(a.Duration) * time.Second
	return s.approve(ctx, c, q)
}

func (s *Server) listHostAccess(_ context.Context, c *call, _ *inNamespace) (*answer, error) {
	f := &hostListFacts{}
	var lines []string
	for _, a := range s.cfg.Pipeline.HostAccess(c.namespace, "") {
		one := hostAccess{Kind: a.Kind, Pattern: readable(a.Pattern), From: a.From}
		line := fmt.Sprintf("%s %s, by %s", one.Kind, one.Pattern, one.From)
		if !a.Until.IsZero() {
			one.Until = a.Until.UTC().Format(time.RFC3339)
			line += ", until " + one.Until
		}
		f.Access, lines = append(f.Access, one), append(lines, line)
	}
	if len(lines) == 0 {
		lines = []string{"nothing is allowed on the host yet"}
	}
	lines = append(lines, "what to do: request_host_access asks a person for more: a command's exact words, or with a * for a word that is no option, such as docker restart *")
	return &answer{text: strings.Join(lines, "\n"), facts: f}, nil
}
