package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Config is the policy for commands and files of the host. The zero value allows none.
type Config struct {
	Enabled     bool
	Policy      *Policy       // nil allows only what people approve
	Timeout     time.Duration // maximum time of a command; 0 is DefaultHostTimeout
	Output      int64         // stored bytes of stdout and of stderr each; 0 is DefaultHostOutput
	Bounds      launch.Bounds // of a command and its descendants; zero fields are DefaultHostBounds
	Cage        *Cage         // for cgroups; nil has none
	Environment []string      // names of server variables that commands get; see CheckEnvironment
	MaxFile     int64         // maximum size of a file to read or write, in bytes; 0 is DefaultFileBytes
	Home        string        // home directory whose credentials are hidden from callers, "" if unknown
	Obeyed      []string      // files that programs obey, which can't be written: see files.NewGuard
}

// Default limits of a command on the host and of a file. A model reads far less, and the server holds all of it in
// memory.
const (
	DefaultHostTimeout = time.Minute
	DefaultHostOutput  = 1 << 20
	DefaultFileBytes   = 16 << 20
)

// DefaultHostBounds are the default bounds of a command on the host: 2 GiB, 256 threads, all cores. They allow a
// build and protect the host.
var DefaultHostBounds = launch.Bounds{RAM: 2 << 30, Processes: 256, CPU: float64(runtime.NumCPU())}

// verbRun begins the text of questions about commands; the pattern follows.
const verbRun = "run "

// Access is an allowed command pattern or directory.
type Access struct {
	Kind    string    `json:"kind"` // "command", "read" or "write"
	Pattern string    `json:"pattern"`
	From    string    `json:"from"` // "configuration", "safe list" or "approval"
	ID      string    `json:"id,omitempty"`
	Until   time.Time `json:"until,omitzero"` // end of an approval
}

// Access lists the configured access of all namespaces.
func (h Config) Access() []Access {
	all := []Access{}
	policy := h.policy()
	for _, one := range policy.Allowed() {
		all = append(all, Access{Kind: "command", Pattern: one.String(), From: Configuration})
	}
	for _, one := range policy.Harmless() {
		all = append(all, Access{Kind: "command", Pattern: one.String(), From: "safe list"})
	}
	for _, r := range policy.Roots() {
		all = append(all, Access{Kind: verbOf(r.Write), Pattern: r.Path, From: Configuration})
	}
	return all
}

func (h Config) maxFile() int64 { return cmp.Or(h.MaxFile, DefaultFileBytes) }

func (h Config) policy() *Policy {
	return cmp.Or(h.Policy, &Policy{})
}

// Enabled reports whether the operator allows access to the host at all.
func Enabled(p *pipeline.Pipeline) bool { return pipeline.PackageSettings[Config](p).Enabled }

// AccessOf lists the current host access of a namespace, or of a session of it.
func AccessOf(p *pipeline.Pipeline, namespace, session string) []Access {
	all := pipeline.PackageSettings[Config](p).Access()
	for _, g := range hostGrants(p, namespace, session, "") {
		if verb, what, ok := strings.Cut(g.Question.What, " "); ok {
			kind := map[string]string{"run": "command", "read": "read", "write": "write"}[verb]
			all = append(all, Access{Kind: kind, Pattern: what, From: Approval, ID: g.Question.ID, Until: g.Answer.Until})
		}
	}
	return all
}

func hostGrants(p *pipeline.Pipeline, namespace, session, run string) []approval.Grant {
	if p.Config.Approvals == nil {
		return nil
	}
	return p.Config.Approvals.GrantsFor(approval.Host,
		approval.Question{Kind: approval.Host, Namespace: pipeline.NamespaceOrDefault(namespace), Session: session, Run: run})
}

// approvedHost returns the current approvals, exactly as they were requested.
func approvedHost(p *pipeline.Pipeline, namespace, session, run string) (patterns []Pattern, roots []files.Root) {
	for _, g := range hostGrants(p, namespace, session, run) {
		verb, what, _ := strings.Cut(g.Question.What, " ")
		one, err := ParsePattern(what)
		if verb == "run" && err == nil && one.String() == what {
			patterns = append(patterns, one)
		}
		clean, err := files.Clean(what)
		if (verb == "read" || verb == "write") && err == nil && clean == what {
			roots = append(roots, files.Root{Path: what, Write: verb == "write", Exact: true})
		}
	}
	return patterns, roots
}

// AskFor returns the question that asks a person for access to the host, or an error if asking is pointless. kind is
// "command", "read" or "write". A question that would reveal a secret is refused.
func AskFor(ctx context.Context, p *pipeline.Pipeline, namespace, kind, pattern, reason string) (approval.Question, error) {
	q := approval.Question{Kind: approval.Host, Namespace: pipeline.NamespaceOrDefault(namespace), Reason: reason}
	what, refused := pipeline.PackageSettings[Config](p).Describe(kind, pattern)
	if q.What = what; refused == nil {
		refused = RedactQuestion(ctx, p, &q)
	}
	if refused == nil {
		return q, nil
	}
	why := pipeline.WrapError(pipeline.StageValidate, refused)
	_, _, err := pipeline.Do(ctx, p, pipeline.Denial{
		Tool: "request_host_access", Namespace: namespace, What: kind + " " + pattern, Stage: why.Stage, Reason: why.Reason, Remedy: why.Remedy,
	})
	return q, err
}

// Describe returns the words for an access in questions and approvals, such as "run docker restart *", or an error if
// no person can grant it.
func (h Config) Describe(kind, pattern string) (string, error) {
	switch {
	case !h.Enabled:
		return "", errHostOff()
	case kind == "read" || kind == "write":
		return hostDirectory(kind, pattern)
	case kind != "command":
		return "", pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%.40q is not a kind of access", kind), "choose command, read or write")
	}
	one, err := ParsePattern(pattern)
	if err == nil {
		err = h.policy().Askable(one)
	}
	if err != nil {
		return "", hostRefusal(err)
	}
	return verbRun + one.String(), nil
}

// hostDirectory returns the text of a question for a directory: its real path, so that it can't be redirected later.
func hostDirectory(kind, dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	switch info, errStat := os.Stat(dir); {
	case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir:
		return "", pipeline.Refuse(pipeline.StageValidate, "the directory's path is not absolute, or not clean",
			"use the absolute path, without . and ..")
	case err != nil || errStat != nil || !info.IsDir():
		return "", pipeline.Refuse(pipeline.StageValidate, "the directory does not exist", "name an existing directory")
	case real != dir:
		return "", pipeline.Refuse(pipeline.StageValidate, "the directory's path contains a link", "name its target: "+real)
	}
	return kind + " " + real, nil
}

// RedactQuestion refuses a question with a secret in it, and removes secrets from its reason.
func RedactQuestion(ctx context.Context, p *pipeline.Pipeline, q *approval.Question) error {
	lease, err := p.Config.Vault.LeaseAll(ctx, q.Namespace)
	if err != nil {
		return pipeline.RedactionError("what is asked", err)
	}
	defer lease.Close()
	return redactQuestion(vault.Leases{lease}, q)
}

func redactQuestion(known vault.Leases, q *approval.Question) error {
	if known.Redact(q.What) != q.What {
		return pipeline.Refuse(pipeline.StageVault, "the question contains a secret of the vault",
			"leave it out: commands on the host get no secrets")
	}
	q.Reason = known.Redact(q.Reason)
	return nil
}

func errHostOff() *pipeline.Error {
	return pipeline.Refuse(pipeline.StageValidate, "host access is off",
		"a person has to set host.enabled: true in the configuration; bring files into a sandbox with ", remedy.Input)
}

// hostRefusal converts a Refusal to an error of the pipeline.
func hostRefusal(err error) error {
	var no *Refusal
	if !errors.As(err, &no) {
		return err
	}
	return pipeline.Refuse(pipeline.StageValidate, no.Reason, no.Remedy...)
}
