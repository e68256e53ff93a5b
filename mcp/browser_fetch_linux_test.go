package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image/png"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	pages "github.com/sandboxmcp/sandboxmcp/pipeline/web"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// everywhere resolves all names to one address.
type everywhere struct{ netip.Addr }

func (e everywhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{e.Addr}, nil
}

func TestBrowserFetch(t *testing.T) {
	if _, err := browser.FindProgram(""); err != nil {
		hosttest.SkipMissing(t, "chromium", err.Error())
	}
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	site := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>A page</title><p id=a></p><img src="http://evil.test/x.png"><script>document.getElementById("a").textContent = "made by " + "a script"</script>`)
	})}}
	site.Start()
	defer site.Close()
	host := fmt.Sprintf("web.test:%d", l.Addr().(*net.TCPAddr).Port)
	policy, err := egress.NewPolicy([]string{host}, nil)
	if err != nil {
		t.Fatal(err)
	}
	backend := process.New(process.Config{StateDir: t.TempDir()})
	defer backend.Close()
	if probe, err := backend.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers}); err != nil || !probe.Usable {
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	r := newRig(t, func(c *Config) {
		c.Pipeline = pipeline.New(pipeline.Config{
			Backends: []backends.Backend{backend}, Audit: c.Log.(*audit.Log), Vault: vault.New(vault.NewMemory()),
			Egress: pipeline.Egress{Dialer: &egress.Dialer{Resolver: everywhere{netip.MustParseAddr("127.0.0.9")},
				Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
			Settings: []any{&pages.Config{Client: web.NewClient(web.Config{}), Policy: policy}},
		})
		t.Cleanup(c.Pipeline.Close)
	})
	p := r.hello("2025-11-25", `{}`)
	got := p.tool("browser_fetch", fmt.Sprintf(`{"url":"http://%s/","screenshot":true,"wait_for":"#a"}`, host))
	contains(t, got.text, "untrusted text of web.test", "title: A page", "made by a script", "answered with HTTP 200",
		"not loaded from evil.test", "request_id: ")
	if got.IsError || !strings.Contains(got.facts["title"].(string), "\nA page\n>>>") || strings.Contains(unfenced(t, got.Structured),
		"made by") || got.facts["ended"] != "ok" || len(got.Content) != 2 || got.Content[1].Type != "image" ||
		got.Content[1].MIMEType != "image/png" {
		t.Fatalf("%v %v %d", got.IsError, got.facts, len(got.Content))
	}
	data, err := base64.StdEncoding.DecodeString(got.Content[1].Data)
	if err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(data)); err != nil || img.Bounds().Dx() != browser.Width {
		t.Errorf("%v", err)
	}
	bad := p.tool("browser_fetch", `{"url":"http://evil.test/"}`)
	contains(t, bad.text, "refused: the page may not be read: evil.test is not among the allowed domains", "web.allow")
	if !bad.IsError || len(bad.Content) != 1 {
		t.Errorf("%v", bad.facts)
	}
}
