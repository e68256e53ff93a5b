package door

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the reverse proxies that are trusted to report their clients' addresses. The zero value trusts none.
type Proxies struct {
	onUnix bool // clients of a Unix socket are proxies
	nets   []netip.Prefix
}

// UnixProxy, in a list of proxies, trusts all clients of the server's Unix socket.
const UnixProxy = "unix"

// ParseProxies reads a list of addresses, networks such as 10.0.0.0/8, and UnixProxy.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for _, text := range list {
		if text == UnixProxy {
			p.onUnix = true
			continue
		}
		network, err := netip.ParsePrefix(text)
		if a, one := netip.ParseAddr(text); one == nil && a.Zone() == "" {
			network, err = a.Unmap().Prefix(a.Unmap().BitLen())
		}
		switch {
		case err != nil:
			return Proxies{}, fmt.Errorf("%.60q is not the address of a proxy: write 10.0.0.2, 10.0.0.0/24 or %s", text, UnixProxy)
		case network.Bits() == 0:
			return Proxies{}, fmt.Errorf("%s matches all addresses, and any client could claim any address: name the proxies", text)
		}
		p.nets = append(p.nets, network.Masked())
	}
	return p, nil
}

func (p Proxies) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p.nets, func(n netip.Prefix) bool { return n.Contains(a) })
}

// Client returns the client that an unidentified request counts for: an IPv4 address, an IPv6 network of 64 bits,
// which is one user's, or all of 127/8 as one; UnixProxy if a Unix socket does not distinguish clients. Behind
// proxies, it is the last hop that is not one of them. A request with both kinds of headers, of which a proxy sets
// one and passes on the other, counts for the proxy.
func (p Proxies) Client(r *http.Request) string {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	at, trusted := client.Addr().Unmap().WithZone(""), p.onUnix
	if err == nil {
		trusted = p.trusts(at)
	}
	hops, others := forwardedFor(r.Header), forwarded(r.Header)
	if hops == nil {
		hops, others = others, nil
	}
	for i := len(hops) - 1; i >= 0 && trusted && others == nil; i-- {
		hop, ok := parseHop(hops[i])
		if !ok { // such as "unknown"
			break
		}
		at, trusted = hop, p.trusts(hop)
	}
	if !at.IsValid() {
		return UnixProxy
	}
	return sourceOf(at)
}

// sourceOf returns the network whose addresses all belong to one machine or customer: 127/8, an IPv6 /64, or one IPv4
// address.
func sourceOf(at netip.Addr) string {
	switch {
	case at.Is4() && at.IsLoopback():
		return "127.0.0.0/8"
	case at.Is4():
		return at.String()
	}
	network, _ := at.Prefix(64) // fails only for IPv4
	return network.String()
}

// parseHop parses an address as proxies write it, with or without a port.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a.Unmap().WithZone(""), err == nil
}

// forwardedFor returns the hops of X-Forwarded-For, the nearest last.
func forwardedFor(h http.Header) []string {
	values := h.Values("X-Forwarded-For")
	if len(values) == 0 {
		return nil
	}
	return strings.Split(strings.Join(values, ","), ",")
}

// forwarded returns the hops of Forwarded (RFC 7239), the nearest last.
func forwarded(h http.Header) (hops []string) {
	values := h.Values("Forwarded")
	if len(values) == 0 {
		return nil
	}
	for _, hop := range outsideQuotes(strings.Join(values, ","), ',') {
		node := ""
		for _, pair := range outsideQuotes(hop, ';') {
			if name, value, _ := strings.Cut(strings.TrimSpace(pair), "="); strings.EqualFold(name, "for") {
				node = strings.Trim(value, `"`)
			}
		}
		hops = append(hops, node)
	}
	return hops
}

// outsideQuotes splits a text at separators outside quotation marks.
func outsideQuotes(text string, separator byte) (parts []string) {
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts, start = append(parts, text[start:i]), i+1
		}
	}
	return append(parts, text[start:])
}
