package wiring

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// The configuration selects the address and the clients.
func TestListenHTTP(t *testing.T) {
	dir := t.TempDir()
	load := func(text string) config.Config {
		t.Helper()
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte("http:\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Options{File: file, Env: []string{"HOME=" + dir}})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	cfg := load("  listen: 127.0.0.1:0\n  hosts: [sandbox.example.com]\n  origins: ['https://app.example.com']\n")
	d, err := ListenHTTP(t.Context(), cfg, nil, nil, nil,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.Address(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /mcp HTTP/1.1\r\nHost: sandbox.example.com\r\nOrigin: https://app.example.com\r\nConnection: "+
		"close\r\n\r\n")
	if answer, err := io.ReadAll(conn); !strings.HasSuffix(string(answer), "\r\n\r\n/mcp") {
		t.Errorf("got %s, %v", answer, err)
	}
	if err := d.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"  tls_cert: /a\n":                             "http: TLS needs",
		"  client_ca: /a\n":                            "http: client certificates need",
		"  listen: 127.0.0.1:0\n  socket_group: x\n":   "http: socket_group needs",
		"  hosts: ['a:1']\n":                           `http: "a:1" is not a host`,
		"  origins: [a]\n":                             `http: "a" is not an origin`,
		"  proxies: ['0.0.0.0/0']\n":                   `http.proxies: 0.0.0.0/0 matches all addresses`,
		"  listen: unix:/a/b\n  socket_group: users\n": "",
	} {
		if err := checkHTTP(load(text).HTTP); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
