package e2b

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// newSandbox is the body of a request for a sandbox.
type newSandbox struct {
	TemplateID     string                           `json:"templateID"`
	Timeout        *int64                           `json:"timeout"` // seconds
	AutoPause      bool                             `json:"autoPause"`
	PauseMemory    *bool                            `json:"autoPauseMemory"`
	AutoResume     *struct{ Enabled bool }          `json:"autoResume"`
	InternetAccess *bool                            `json:"allow_internet_access"`
	Network        *networkConfig                   `json:"network"`
	Metadata       map[string]string                `json:"metadata"`
	EnvVars        map[string]string                `json:"envVars"`
	IAM            *struct{ Tokens map[string]any } `json:"iam"`
	VolumeMounts   []any                            `json:"volumeMounts"`
	// The API's secure and mcp are ignored: a sandbox always needs its tokens, and the SDK itself starts the
	// template's MCP program.
}

// The protocol's default timeout, in seconds, and the bounds of a caller's data about a sandbox.
const (
	defaultTimeout = 15
	secondTimeout  = 300 // of the API's second version
	maxPairs       = 256
	maxPair        = 32 << 10 // bytes of a name and its value
)

// defaultTimeoutOf returns the timeout of a request that has none, in seconds.
func defaultTimeoutOf(r *http.Request) int64 {
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		return secondTimeout
	}
	return defaultTimeout
}

// check returns why a sandbox can't be created as requested, or "".
func (q newSandbox) check() string {
	switch {
	case q.AutoPause && (q.PauseMemory == nil || *q.PauseMemory):
		return "memory can't be kept: with autoPause, set autoPauseMemory to false (in SDKs keepMemory: false) to keep the files"
	case q.AutoResume != nil && q.AutoResume.Enabled:
		return "autoResume is not supported, since memory can't be kept: omit it, and connect to the sandbox"
	case q.IAM != nil && len(q.IAM.Tokens) > 0:
		return "workload tokens are not supported: omit iam"
	case len(q.VolumeMounts) > 0:
		return unsupported["volumes"]
	case q.Timeout != nil && *q.Timeout < 0:
		return "timeout must not be negative"
	}
	for what, pairs := range map[string]map[string]string{"metadata": q.Metadata, "envVars": q.EnvVars} {
		if len(pairs) > maxPairs {
			return fmt.Sprintf("%s has %d entries; the maximum is %d", what, len(pairs), maxPairs)
		}
		for name, value := range pairs {
			if len(name)+len(value) > maxPair {
				return fmt.Sprintf("an entry of %s is too large: the maximum is %d bytes", what, maxPair)
			}
		}
	}
	return ""
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, c caller) error {
	var q newSandbox
	if err := decode(r, &q); err != nil {
		return err
	}
	from := s.snapshotNamed(c, q.TemplateID)
	runtime, ok := s.template(q.TemplateID)
	files := ""
	if from != nil {
		runtime, files = from.runtime, from.id
	} else if !ok {
		return door.Refuse(http.StatusNotFound, fmt.Sprintf("template %.100q not found: use one of %s", q.TemplateID, s.templateNames()))
	}
	if why := q.check(); why != "" {
		return door.Refuse(http.StatusBadRequest, why)
	}
	seconds := defaultTimeoutOf(r)
	if q.Timeout != nil {
		seconds = *q.Timeout
	}
	b := &Sandbox{Namespace: c.namespace, Owner: c.Identity, Template: q.TemplateID, Env: q.EnvVars, Metadata: q.Metadata,
		autoPause: q.AutoPause,
		runtime:   runtime, internet: q.InternetAccess, network: q.Network}
	if err := s.startNew(r, b, files, seconds); err != nil {
		return err
	}
	return door.Reply(w, http.StatusCreated, s.connection(r, b))
}

// startNew starts a new sandbox for some seconds, with the files of a snapshot unless files is "".
func (s *Server) startNew(r *http.Request, b *Sandbox, files string, seconds int64) error {
	info, err := s.start(r, b, files, seconds)
	if err != nil {
		return err
	}
	b.ID, b.Created, b.current, b.contexts = strings.ToLower(info.ID), info.Created, info.ID, newContexts()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[b.ID] = b
	return nil
}

// environment returns variables as KEY=VALUE, by name.
func environment(vars map[string]string) (env []string) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// envdVersion is the version of E2B's daemon with the protocol of this package.
const envdVersion = "0.6.4"

// connection returns the data that the sender's SDK needs to reach a sandbox.
func (s *Server) connection(r *http.Request, b *Sandbox) map[string]any {
	who, _ := identity.From(r.Context())
	p := s.passFor(b, who)
	var domain any // null if there is none
	if s.cfg.Domain != "" {
		domain = s.cfg.Domain
	}
	return map[string]any{"sandboxID": b.ID, "templateID": b.Template, "clientID": clientID, "envdVersion": envdVersion,
		"envdAccessToken": p.access, "trafficAccessToken": p.traffic, "domain": domain}
}

func (s *Server) kill(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	// The sandbox ends even if the client disconnects.
	_, res, err := pipeline.Do(context.WithoutCancel(r.Context()), s.cfg.Pipeline, session.End{
		Namespace: b.Namespace, Session: b.session(),
	})
	if err != nil && (s.hasSession(b) || s.isPaused(b)) {
		return err
	}
	s.forget(b)
	door.Warn(w, res.LateRowWarning())
	return door.Reply(w, http.StatusNoContent, nil)
}
