package mcp

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

const aboutEgress = `Asks a person whether code may reach a host that policy refuses. The answer is approved, denied or pending; ` +
	`an approval covers exactly this host or pattern, for this namespace (or session, if the person says so) and this long. ` +
	`Name the host in allowed_domains of the next call afterwards.`

func egressIn() form {
	return form{
		text("domain", `The host, as in allowed_domains: "example.com", "*.example.com" or "example.com:5432".`).required().atLeast(1).upTo(300),
		text("reason", "Why it is needed, in a sentence for the person who decides.").upTo(1000),
		namespaceField(),
		sessionField("The session that needs it: the person can then approve it for that only. Default: all of the namespace."),
		integer("duration_seconds", "How long the approval is to hold.", 60, 86400).or(3600),
		text("code_sha256", "Asks for this code only: the SHA-256 of its bytes in hex. Default: all code of the namespace.").upTo(64),
	}
}

func (s *Server) requestEgress(ctx context.Context, c *call) (*answer, error) {
	session := c.text("session_id")
	if session != "" {
		if _, err := s.cfg.Pipeline.Session(c.namespace, session); err != nil {
			return nil, err
		}
	}
	host := strings.TrimSpace(c.text("domain"))
	policy, err := egress.NewPolicy([]string{host}, nil)
	if err == nil { // so that a no is one to all spellings of it
		host, err = egress.Canonical(host)
	}
	if err != nil {
		reason, _ := remedy.Split(err)
		return nil, bad("domain", "%s", reason)
	}
	if slices.Contains(policy.Ports(), backends.DNSPort) { // an approval would be in the way of all that run afterwards
		return nil, bad("domain", "port %d is where each sandbox looks names up: nothing else can be reached on it", backends.DNSPort)
	}
	if err := s.cfg.Pipeline.AskFor(host); err != nil {
		return nil, err
	}
	code := strings.ToLower(c.text("code_sha256"))
	if code != "" && (len(code) != 64 || strings.Trim(code, "0123456789abcdef") != "") {
		return nil, bad("code_sha256", "must be 64 hexadecimal digits")
	}
	q := approval.Question{Kind: approval.Egress, What: host, Namespace: c.namespace, Session: session, Reason: c.text("reason"), CodeSHA256: code,
		For: cmp.Or(seconds(c.number("duration_seconds")), approval.DefaultFor)}
	return s.approve(ctx, c, q)
}
