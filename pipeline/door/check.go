package door

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
)

// ServeHTTP answers a request, and counts its memory meanwhile.
func (d *Door) ServeHTTP(plain http.ResponseWriter, r *http.Request) {
	v, r := d.beginVisit(plain, r)
	defer v.releaseUser()
	defer v.deadlines.close()
	w := &response{ResponseWriter: plain, rc: v.deadlines.rc, timeout: d.b.write, visit: v}
	defer w.finish()
	defer d.recovered()
	d.answer(w, plain, r)
	if r.ProtoMajor == 2 { // a client can delay the rest, which counts for the request until it is sent
		w.Flush()
	}
}

// answer checks a request and passes it to the handler.
func (d *Door) answer(w *response, plain http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) {
		// net/http ignores either Content-Length or Transfer-Encoding. A proxy that obeys the other one would take
		// the rest of the connection for another request (RFC 9112, section 6.1).
		w.Header().Set("Connection", "close")
	}
	if r.ContentLength != 0 {
		r.Body = d.body(plain, r, w.visit)
	}
	if d.c.Apart != nil && d.c.Apart(r.Host) {
		d.c.Handler.ServeHTTP(w, r)
		return
	}
	health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
	if !d.rightHost(r, health) {
		hint := "use its address, or ask the operator to add the name to http.hosts"
		if d.onUnix {
			hint = "use a name of http.hosts in its configuration; without any, use localhost: curl --unix-socket PATH http://localhost/"
		}
		refuse(w, http.StatusMisdirectedRequest, "the name in Host is not a name of this server", hint)
		return
	}
	if health {
		d.health(w, r)
		return
	}
	open := d.c.Open != nil && d.c.Open(r)
	if !open && !d.rightOrigin(r) {
		refuse(w, http.StatusForbidden, "pages of this origin may not use this server", "ask the operator to add the origin to http.origins")
		return
	}
	if !open && d.cors(w, r) {
		return
	}
	if most := d.largest(r); r.ContentLength > most {
		w.Header().Set("Connection", "close") // otherwise net/http waits for some of the body before it answers
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d MiB", most>>20), "send less at once")
		return
	}
	d.c.Handler.ServeHTTP(w, r)
}

// recovered logs the place of a handler's panic, but not its value, which may come from the request. The client gets
// a truncated answer.
func (d *Door) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		d.c.Log.Error("an HTTP handler panicked: this is a bug of sandboxmcp", "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	}
	panic(http.ErrAbortHandler)
}

// health answers probes, which have no identity: the server runs, and is ready or not with the reason.
func (d *Door) health(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "only GET and HEAD are allowed", "send GET")
		return
	}
	if r.URL.Path == "/readyz" {
		if reason := d.unreadiness(); reason != "" {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": reason})
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// unreadiness returns the reason why the server is not ready, or "".
func (d *Door) unreadiness() (reason string) {
	if d.draining.Load() {
		reason = "the server is shutting down"
	}
	select {
	case <-d.ended: // older connections can still probe
		reason = "the server accepts no more connections"
	default:
	}
	if d.c.Ready != nil {
		if err := d.c.Ready(); err != nil {
			reason = err.Error()
		}
	}
	if before := d.unready.Swap(reason); before != reason && reason != "" { // log once: probes come every few seconds
		d.c.Log.Warn("the server is not ready", "error", reason)
	}
	return reason
}

// rightHost reports whether Host is a name of this server. A page whose own name was pointed at this address (DNS
// rebinding) has the same origin to a browser, but its own name in Host. Ports are not compared: they change on the
// way into a container. Probes come from balancers and name the server by an address, so any address is accepted: no
// page has an address for a name.
func (d *Door) rightHost(r *http.Request, probe bool) bool {
	name := hostname(r.Host)
	if slices.Contains(d.hosts, name) || d.onUnix && len(d.hosts) == 0 && name == "localhost" {
		return true
	}
	if d.onUnix && !probe { // clients use the names of the proxy before it, which are in hosts
		return false
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return name == "localhost" || probe && name == "" && !r.ProtoAtLeast(1, 1) // balancers omit Host, browsers do not
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return probe || ip.IsLoopback() || local != nil && ip.Unmap() == local.AddrPort().Addr().Unmap().WithZone("")
}

// hostname returns the name in a Host header: without port, brackets and trailing dot, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// rightOrigin reports whether the page that made a browser send the request may do so. Other clients send no Origin.
func (d *Door) rightOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 { // browsers omit it for links, images and the like
		site := r.Header.Get("Sec-Fetch-Site")
		if d.c.Linked != nil && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
			r.Header.Get("Sec-Fetch-Dest") == "document" && d.c.Linked(r.URL.Path) {
			return true
		}
		return site == "" || site == "same-origin" || site == "none"
	}
	scheme, host, ok := strings.Cut(origins[0], "://")
	same := ok && strings.EqualFold(host, r.Host) && (d.onUnix || (scheme == "https") == (r.TLS != nil)) // a proxy may terminate TLS
	return len(origins) == 1 && (same || slices.Contains(d.c.Origins, origins[0]))
}

// cors lets pages of the configured origins read answers. It also answers preflight requests, and reports whether it
// did.
func (d *Door) cors(w http.ResponseWriter, r *http.Request) bool {
	if len(d.c.Origins) == 0 {
		return false
	}
	h, origin := w.Header(), r.Header.Get("Origin")
	h.Add("Vary", "Origin")
	if !slices.Contains(d.c.Origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Mcp-Session-Id, Mcp-Protocol-Version, Last-Event-ID, "+
		"Mcp-Method, Mcp-Name")
	h.Set("Access-Control-Max-Age", "600") // seconds until a changed configuration takes effect
	w.WriteHeader(http.StatusNoContent)
	return true
}

func refuse(w http.ResponseWriter, status int, text, hint string) {
	writeJSON(w, status, map[string]string{"error": text, "hint": hint})
}
