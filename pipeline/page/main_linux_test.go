package page

import (
	"context"
	"crypto"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// server is a page before real sandboxes, a real log and a real listener.
type server struct {
	*Page
	t      testing.TB
	pipe   *pipeline.Pipeline
	broker *approval.Broker
	log    *audit.Log
	tokens *identity.Tokens
	base   string // with a slash at the end
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func serve(t testing.TB) *server {
	t.Helper()
	b := process.New(process.Config{StateDir: t.TempDir()})
	t.Cleanup(func() { b.Close() })
	if probe, err := b.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers}); err != nil || !probe.Usable {
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	dir := t.TempDir()
	keys, err := signer.OpenKeys(filepath.Join(dir, "keys"), func(context.Context, signer.Change) error { return nil })
	must(t, err)
	_, err = keys.Current(t.Context())
	must(t, err)
	log, err := audit.OpenSigned(t.Context(), filepath.Join(dir, "audit.db"), audit.Signing{
		Key:       func(ctx context.Context) (crypto.Signer, error) { return keys.Current(ctx) },
		KnownKeys: func() []checkpoint.Key { return nil },
	})
	must(t, err)
	t.Cleanup(func() { log.Close() })
	bus := event.NewBus()
	broker := approval.New(approval.Config{Audit: log, Bus: bus})
	store, err := results.Open(results.Config{Dir: filepath.Join(dir, "runs")})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	p := pipeline.New(pipeline.Config{Backends: []backends.Backend{b}, Audit: log, Temp: t.TempDir(),
		Settings: []any{&workspace.Config{Dir: filepath.Join(dir, "changes")}}, Bus: bus, Approvals: broker, Results: store,
		RecordConfig: pipeline.RecordConfig{Keys: keys, Capture: pipeline.Capture{Code: true, Output: true}}, Egress: pipeline.Egress{Ask: true},
		Limits: pipeline.Bounds{Output: 16 << 20}, Caps: pipeline.Bounds{Output: 16 << 20}})
	t.Cleanup(func() { broker.Close(); p.Close() })
	api := control.New(control.Config{Pipeline: p, Approvals: broker, Events: bus, Records: log, Keys: keys, Results: store,
		Settings: func() []control.Setting {
			return []control.Setting{{Key: "network", Value: "ask", From: "/etc/x.yaml:3"}, {Key: "http.listen", Value: "secret-place",
				From: "flag"}}
		},
		Doctor: func(context.Context) ([]control.Finding, error) {
			return []control.Finding{{Kind: "layer", Name: "user", OK: true}}, nil
		}})
	t.Cleanup(api.Close)
	s := &server{t: t, pipe: p, broker: broker, log: log, tokens: identity.OpenTokens(dir)}
	checker := identity.New(identity.Config{Tokens: s.tokens})
	s.Page = New(Config{Client: control.LocalClient(api), Identify: checker.Identify, Watch: checker.Watch,
		Origins: []string{"https://agents.example.com"}})
	d, err := door.Listen(t.Context(), door.Config{Address: "127.0.0.1:0", Handler: s.Page, Linked: IsLinkPath,
		Origins: []string{"https://agents.example.com"}})
	must(t, err)
	t.Cleanup(func() {
		s.Page.Close()
		api.Stop()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.Drain(ctx)
	})
	s.base = d.Address() + "/"
	return s
}

// boss sees all namespaces.
var boss = identity.Identity{Name: "ada", Kind: identity.Person, Namespaces: identity.All(), Source: identity.FromPeer}

// visit is a browser without a script.
type visit struct {
	*server
	http http.Client
	room string // its URL
}

func (s *server) visitor() *visit {
	jar, err := cookiejar.New(nil)
	must(s.t, err)
	return &visit{s, http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, ""}
}

// invitation is a code for an identity.
func invitation(t testing.TB, p *Page, i identity.Identity) string {
	t.Helper()
	code, err := p.Invite(i)
	must(t, err)
	return code
}

func (s *server) invitation(i identity.Identity) string {
	s.t.Helper()
	return invitation(s.t, s.Page, i)
}

// as is a browser that has got in.
func (s *server) as(i identity.Identity) *visit {
	s.t.Helper()
	v := s.visitor()
	if resp, text := v.submitCode(url.Values{"code": {s.invitation(i)}}); resp.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("got %d %s", resp.StatusCode, text)
	}
	return v
}

var roomIn = regexp.MustCompile(`action="(~[a-z2-7]+/)enter"`)

// submitCode sends the form of the gate.
func (v *visit) submitCode(form url.Values, headers ...string) (*http.Response, string) {
	v.t.Helper()
	_, text := v.send("GET", v.base, nil)
	found := roomIn.FindStringSubmatch(text)
	if found == nil {
		v.t.Fatalf("no gate: %s", text)
	}
	v.room = v.base + found[1]
	return v.send("POST", v.room+"enter", form, headers...)
}

// send sends a request as the page's own script would, unless headers say otherwise: "-Name" leaves one out.
func (v *visit) send(method, at string, form url.Values, headers ...string) (*http.Response, string) {
	v.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(v.t.Context(), method, at, body)
	must(v.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", strings.TrimSuffix(v.base, "/"))
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if name, gone := strings.CutPrefix(headers[i], "-"); gone {
			req.Header.Del(name)
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := v.http.Do(req)
	must(v.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(v.t, err)
	return resp, string(text)
}

func (v *visit) load(path string, headers ...string) (*http.Response, string) {
	v.t.Helper()
	return v.send("GET", v.room+path, nil, headers...)
}

var tokenIn = regexp.MustCompile(`data-token="([a-z2-7]{32})"`)

// token is that of the visitor's forms.
func (v *visit) token() string {
	v.t.Helper()
	_, text := v.load("")
	found := tokenIn.FindStringSubmatch(text)
	if found == nil {
		v.t.Fatalf("no token: %s", text)
	}
	return found[1]
}

func (v *visit) post(path string, form url.Values, headers ...string) (*http.Response, string) {
	v.t.Helper()
	if !form.Has("token") {
		form.Set("token", v.token())
	}
	return v.send("POST", v.room+path, form, headers...)
}

// ran runs code of an agent in a namespace.
func (s *server) ran(namespace, language, code string) pipeline.Outcome {
	s.t.Helper()
	_, res, _ := pipeline.Do(s.t.Context(), s.pipe, run.Request{
		Namespace: namespace, Language: language, Code: []byte(code), Client: "agent-of-" + namespace,
	})
	return res
}
