package e2b

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// portOf returns the port and the sandbox that a Host PORT-ID.domain names.
func portOf(host, domain string) (port int, id string, ok bool) {
	name, below := strings.CutSuffix(bare(host), "."+bare(domain))
	if domain == "" || !below || strings.Contains(name, ".") {
		return 0, "", false
	}
	number, id, dashed := strings.Cut(name, "-")
	port, err := strconv.Atoi(number)
	return port, id, dashed && err == nil && port > 0 && port < 1<<16 && id != ""
}

// bare returns a host's name without its port, in small letters.
func bare(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Names returns the names of the server below a domain, under which SDKs look for it.
func Names(domain string) []string {
	if domain == "" {
		return nil
	}
	return []string{bare(domain), "api." + bare(domain), "sandbox." + bare(domain)}
}

// OfPort reports whether a Host is one of a sandbox's port, at which nothing of this server is.
func OfPort(host, domain string) bool {
	_, _, ok := portOf(host, domain)
	return ok
}

// credentials are headers that no browser sends by itself.
var credentials = []string{headerKey, "Authorization", headerAccess, headerTraffic}

// Open reports whether pages of any origin may send a request: E2B's protocol proves who asks by a header or a
// signature, of which a page that a person has merely visited has none. Cookies and certificates of clients, which
// browsers add by themselves, count for nothing there.
func Open(r *http.Request) bool {
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		asked := strings.ToLower(r.Header.Get("Access-Control-Request-Headers"))
		return isControl(r.URL.Path) || r.URL.Path == filesPath || strings.Contains(asked, strings.ToLower(headerSandbox))
	}
	if !owns(r) {
		return false
	}
	for _, name := range credentials {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return r.URL.Path == filesPath && r.URL.Query().Has("signature") || r.Header.Get(headerSandbox) != "" && r.URL.Path == "/health"
}

// cors lets pages read an answer whose request Open lets pass, and answers whether they may send one, which it reports.
func cors(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Origin") == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*") // which browsers take for no credentials of theirs
	h.Set("Access-Control-Expose-Headers", "*")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, *")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
