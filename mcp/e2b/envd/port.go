package envd

import (
	"cmp"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// ownHeaders belong to this server and its client; programs in a sandbox must not see them.
var ownHeaders = []string{"E2b-Sandbox-Id", "E2b-Sandbox-Port", "X-Access-Token", "E2b-Traffic-Access-Token", "X-Api-Key", "Authorization"}

// pageCookie is the cookie of the server's page: browsers send it to all ports of a host.
const pageCookie = "sandboxmcp"

// dropCookie removes the cookie of the server's page from a request.
func dropCookie(h http.Header) {
	var others []string
	for _, line := range h.Values("Cookie") {
		for part := range strings.SplitSeq(line, ";") {
			if name, _, _ := strings.Cut(strings.TrimSpace(part), "="); !strings.EqualFold(name, pageCookie) {
				others = append(others, strings.TrimSpace(part))
			}
		}
	}
	if h.Del("Cookie"); len(others) > 0 {
		h.Set("Cookie", strings.Join(others, "; "))
	}
}

// restrictCookies removes the domain of a program's cookies, so that they apply to its own host name only.
func restrictCookies(r *http.Response) error {
	lines := r.Header.Values("Set-Cookie")
	for i, line := range lines {
		parts := strings.Split(line, ";")
		lines[i] = strings.Join(slices.DeleteFunc(parts, func(part string) bool {
			name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
			return strings.EqualFold(name, "Domain")
		}), ";")
	}
	return nil
}

// ServePort forwards a request to a server of the sandbox, on a port of its loopback. Each request is a connection
// and an audit row of its own. host is its Host; "" is the client's.
func (s *Server) ServePort(w http.ResponseWriter, r *http.Request, t Target, port int, host string) {
	r.Body = struct {
		io.Reader
		io.Closer
	}{door.Passing(r, r.Body), r.Body}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, _, err := pipeline.Do(ctx, s.pipeline, inside.DialPort{Namespace: t.Namespace, Session: t.Session, Port: port})
			return conn, err
		},
	}
	defer transport.CloseIdleConnections()
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", "localhost"
			p.Out.Host = cmp.Or(host, p.In.Host)
			for _, name := range ownHeaders {
				p.Out.Header.Del(name)
			}
			dropCookie(p.Out.Header)
		},
		ModifyResponse: restrictCookies,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			_, text := explain(err)
			door.Reply(w, http.StatusBadGateway, map[string]any{
				"sandboxId": t.Session, "port": port, "code": http.StatusBadGateway,
				"message": "the sandbox is running, but its port can't be reached: " + text,
			})
		},
	}
	proxy.ServeHTTP(w, r)
}
