package e2b

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// portOf parses a Host of the form PORT-ID.domain.
func portOf(host, domain string) (port int, id string, ok bool) {
	name, below := strings.CutSuffix(bare(host), "."+bare(domain))
	if domain == "" || !below || strings.Contains(name, ".") {
		return 0, "", false
	}
	number, id, dashed := strings.Cut(name, "-")
	port, err := strconv.Atoi(number)
	return port, id, dashed && err == nil && port > 0 && port < 1<<16 && id != ""
}

// bare returns a lower-case host name without its port.
func bare(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Names returns the server's host names below a domain, which SDKs use.
func Names(domain string) []string {
	if domain == "" {
		return nil
	}
	return []string{bare(domain), "api." + bare(domain), "sandbox." + bare(domain)}
}

// OfPort reports whether a Host belongs to a sandbox's port, where this server has nothing of its own.
func OfPort(host, domain string) bool {
	_, _, ok := portOf(host, domain)
	return ok
}

// credentials are headers that browsers never send by themselves.
var credentials = []string{headerKey, "Authorization", headerAccess, headerTraffic}

// Open reports whether pages of any origin may send a request. E2B's protocol authenticates by a header or a
// signature, which a page that a person merely visits does not have. Cookies and client certificates, which browsers
// send by themselves, are ignored there.
func Open(r *http.Request) bool {
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		asked := strings.ToLower(r.Header.Get("Access-Control-Request-Headers"))
		return isControl(r.URL.Path) || r.URL.Path == filesPath || strings.Contains(asked, strings.ToLower(headerSandbox))
	}
	if !belongsToE2B(r) {
		return false
	}
	for _, name := range credentials {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return r.URL.Path == filesPath && r.URL.Query().Has("signature") || r.Header.Get(headerSandbox) != "" && r.URL.Path == "/health"
}

// cors sets the headers that let pages read the answer of a request that Open allows. It answers preflight requests
// and reports whether it did.
func cors(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Origin") == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*") // with "*", browsers send no credentials
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
