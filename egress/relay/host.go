package relay

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// checkTarget returns an error if r is not a request to the route's name.
func (c *clientConn) checkTarget(r *http.Request) error {
	name := c.route.Name
	switch {
	case r.Method == http.MethodConnect:
		return refuse("%s may not be used as a proxy (CONNECT)", name)
	case r.Method == http.MethodTrace:
		return refuse("TRACE is not passed on") // it returns the request's headers
	case r.URL.User != nil:
		return refuse("a user name in the request's address is not passed on")
	case r.URL.Opaque != "": // x:http://other/ would be forwarded as http://other/
		return refuse("%s is not an address at %s", quoteShort(r.RequestURI), name)
	case r.URL.Scheme != "" && !strings.EqualFold(r.URL.Scheme, c.scheme()):
		return refuse("a request for %s came in over %s", quoteShort(r.URL.Scheme), c.scheme())
	case r.URL.Path != "" && r.URL.Path[0] != '/' && (r.URL.Path != "*" || r.Method != http.MethodOptions):
		return refuse("%s is not an address at %s", quoteShort(r.RequestURI), name)
	}
	if r.Host == "" && !r.ProtoAtLeast(1, 1) {
		return nil // optional in HTTP/1.0; the relay sends the name
	}
	hosts := append([]string{r.Host}, r.Header["Host"]...) // in HTTP/2, beside :authority
	if r.URL.Host != "" {
		hosts = append(hosts, r.URL.Host)
	}
	for _, host := range hosts {
		if _, ok := c.route.matchesHost(host); !ok {
			return refuse("this connection was made to %s, and the request asks for %s: "+
				"make a new connection to each name", name, quoteShort(host))
		}
	}
	return nil
}

// matchesHost reports whether host, of a request, is the route's name, and whether it has the port.
func (t Route) matchesHost(host string) (withPort, ok bool) {
	if strings.Contains(t.Name, ":") { // an address of IPv6
		port, ok := strings.CutPrefix(host, "["+t.Name+"]")
		return port != "", ok && (port == "" || port == ":"+strconv.Itoa(t.Port))
	}
	name, port, withPort := strings.Cut(host, ":")
	if withPort && port != strconv.Itoa(t.Port) {
		return false, false
	}
	return withPort, sameName(name, t.Name)
}

// hostHeader returns the Host to send: always the canonical name. It has the port if the client's has, as some clients
// sign it.
func (t Route) hostHeader(host string) string {
	if withPort, _ := t.matchesHost(host); withPort {
		return t.address()
	}
	return strings.TrimSuffix(t.address(), ":"+strconv.Itoa(t.Port))
}

func (t Route) address() string { return net.JoinHostPort(t.Name, strconv.Itoa(t.Port)) }

// urlHost returns the host of a URL, without the default port of the scheme.
func (t Route) urlHost(scheme string) string {
	if scheme == "https" {
		return strings.TrimSuffix(t.address(), ":443")
	}
	return strings.TrimSuffix(t.address(), ":80")
}

// isAddress reports whether the name is an address, for which TLS has no SNI.
func (t Route) isAddress() bool { return net.ParseIP(t.Name) != nil }

// sameName compares a name to a canonical name. With equal lengths, only ASCII is folded: other letters that fold to an
// ASCII letter are longer.
func sameName(name, canonical string) bool {
	name = strings.TrimSuffix(name, ".")
	return name != "" && len(name) == len(canonical) && strings.EqualFold(name, canonical)
}

// quoteShort shortens and escapes a client's text for a message.
func quoteShort(s string) string { return fmt.Sprintf("%+.80q", s) }
