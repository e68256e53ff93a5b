package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// aboutAll is the part of the instructions that all servers share.
const aboutAll = `Runs code in sandboxes that the kernel enforces. execute_code runs Python, Node, TypeScript, shell or R once; ` +
	`with a session_id from create_session, variables, imports and files stay from call to call. ` +
	`Programs reach only hosts that policy allows or allowed_domains names; for a refused host, request_egress asks a person. ` +
	`Files come in with "files" and get_artifacts returns the files that a program leaves in its working directory. ` +
	`A refusal has a reason and a remedy: follow it, don't retry the same call.`

// maxInstructions bounds the instructions, in characters: most clients put them into each conversation.
const maxInstructions = 1200

// instructions returns the text for a client that connects: aboutAll, and the features of this server. It starts no
// interpreter; list_runtimes reports the packages.
func (s *Server) instructions(ctx context.Context) string {
	text := aboutAll + " list_runtimes lists languages and packages."
	room := maxInstructions - utf8.RuneCountInString(text)
	if names := joinFitting(containment.Reachable(s.cfg.Pipeline), room/3-60); names != "" {
		text += "\nHosts that programs reach without asking: " + names + "."
	}
	if names := joinFitting(workspace.DescribeNamed(s.cfg.Pipeline, s.cfg.Namespace), room/3); names != "" {
		text += "\nWorkspaces, the host's directories that \"workspace\" gives to code: " + names + "."
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a locked database must not delay the client
	defer cancel()
	if names := joinFitting(s.cfg.Pipeline.SecretNames(ctx, s.cfg.Namespace), room/3-60); names != "" {
		text += "\nSecrets that \"secrets\" can give to a program: " + names + "."
	}
	return text
}

// joinFitting lists the names that fit into room characters, and the number of the others.
func joinFitting(names []string, room int) string {
	for n := range names {
		if room -= utf8.RuneCountInString(names[n]) + len(", "); room < 0 {
			return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
		}
	}
	return strings.Join(names, ", ")
}
