package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
)

const aboutHostList = `Lists the allowed commands and directories of the host, and when the permissions expire.`

type hostListFacts struct {
	answer.Common
	Access []hostAccess `json:"access,omitempty" about:"The permissions."`
}

type hostAccess struct {
	Kind    string `json:"kind" about:"command, read or write."`
	Pattern string `json:"pattern" about:"The command's pattern, or the directory."`
	Until   string `json:"until,omitempty" about:"When it expires; absent if the operator's configuration allows it."`
	From    string `json:"from" about:"Who allowed it: configuration or approval."`
}

func (s *Server) listHostAccess(_ context.Context, c *call, _ *inNamespace) (*answer.Answer, error) {
	f := &hostListFacts{}
	var lines []string
	for _, a := range host.AccessOf(s.cfg.Pipeline, c.namespace, "") {
		one := hostAccess{Kind: a.Kind, Pattern: safetext.Model(a.Pattern), From: a.From}
		line := fmt.Sprintf("%s %s, by %s", one.Kind, one.Pattern, one.From)
		if !a.Until.IsZero() {
			one.Until = a.Until.UTC().Format(time.RFC3339)
			line += ", until " + one.Until
		}
		f.Access, lines = append(f.Access, one), append(lines, line)
	}
	if len(lines) == 0 {
		lines = []string{"nothing on the host is allowed yet"}
	}
	lines = append(lines, "what to do: request_host_access asks a person for more: a command's exact words, or with * for a word that is "+
		"not an option, such as docker restart *")
	return &answer.Answer{Text: strings.Join(lines, "\n"), Facts: f}, nil
}
