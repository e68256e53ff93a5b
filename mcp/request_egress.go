package mcp

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

const aboutEgress = `Asks a person to allow a host that policy refuses. The answer is approved, denied or pending; ` +
	`an approval covers exactly this host or pattern, for this namespace (or session, if the person chooses so) and duration. ` +
	`Then name the host in allowed_domains of the next call.`

type egressArgs struct {
	Domain string `json:"domain" about:"The host, in the form of allowed_domains: \"example.com\", \"*.example.com\" or \"example.com:5432\"." range:"1..300" required:"true"`
	Reason string `json:"reason" about:"Why it is needed, in one sentence for the person." range:"..1000"`
	inNamespace
	Session  string `json:"session_id" about:"The session that needs it: the person can then approve it for this session only. Default: the whole namespace." range:"..64"`
	Duration int    `json:"duration_seconds" about:"Duration of the approval." range:"60..86400" default:"3600"`
	Code     string `json:"code_sha256" about:"Limits the approval to code with this SHA-256, in hex. Default: all code of the namespace." range:"..64"`
}

func (s *Server) requestEgress(ctx context.Context, c *call, a *egressArgs) (*answer.Answer, error) {
	if a.Session != "" {
		if _, err := session.InfoOf(s.cfg.Pipeline, c.namespace, a.Session); err != nil {
			return nil, err
		}
	}
	host := strings.TrimSpace(a.Domain)
	policy, err := egress.NewPolicy([]string{host}, nil)
	if err == nil { // so that a denial applies to all spellings
		host, err = egress.Canonical(host)
	}
	if err != nil {
		reason, _ := remedy.Split(err)
		return nil, operation.ArgumentError("domain", "%s", reason)
	}
	if slices.Contains(policy.Ports(), backends.DNSPort) { // an approval would apply to all later runs
		return nil, operation.ArgumentError("domain", "port %d is reserved: sandboxes resolve names on it", backends.DNSPort)
	}
	if err := containment.CheckAskable(s.cfg.Pipeline, host); err != nil {
		return nil, err
	}
	code := strings.ToLower(a.Code)
	if code != "" && (len(code) != 64 || strings.Trim(code, "0123456789abcdef") != "") {
		return nil, operation.ArgumentError("code_sha256", "must be 64 hexadecimal digits")
	}
	q := approval.Question{Kind: approval.Egress, What: host, Namespace: c.namespace, Session: a.Session, Reason: a.Reason, CodeSHA256: code,
		For: time.Duration(a.Duration) * time.Second}
	return s.ask.Approve(ctx, c.Message, q)
}
