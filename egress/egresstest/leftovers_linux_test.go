package egresstest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// stays reports each event that these flags (--allow NAME[:PORT] ...) do not permit.
func (w *world) stays(t *testing.T, events []event, flags []string) {
	t.Helper()
	for _, complaint := range leftovers(events, flags) {
		t.Error(complaint)
	}
}

func leftovers(events []event, flags []string) (complaints []string) {
	names, packets := permitted(flags)
	seen := map[string]bool{}
	for _, e := range events {
		c := ""
		switch e.kind {
		case "packet":
			if !packets[e.host] {
				c = "a packet left"
			}
		case "query":
			if !slices.Contains(names, e.host) {
				c = "a query left"
			}
		case "tls":
			if name := strings.ToLower(e.text); name != e.host && name != aliasOf(e.host) {
				c = "a server was asked for another's name"
			}
		case "request":
			if !about(e.text, e.host) {
				c = "a request for another name"
			}
		}
		if !slices.Contains(names, e.host) && e.kind != "packet" && e.kind != "query" {
			c = "a server was reached"
		}
		if e.kind == "bytes" && strings.Contains(e.text, "hidden.test") {
			c = "bytes name a site behind another"
		}
		if c != "" && !seen[c+e.host] {
			seen[c+e.host] = true
			complaints = append(complaints, fmt.Sprintf("%s: %v", c, e))
		}
	}
	return complaints
}

// permitted returns the names that may be looked up, and the allowed destinations of packets.
func permitted(flags []string) (names []string, packets map[string]bool) {
	packets = map[string]bool{"udp " + nameServer + ":53": true, "tcp " + nameServer + ":53": true}
	for _, f := range flags {
		name, port, _ := strings.Cut(f, ":")
		names = append(names, name)
		s := siteNamed(name)
		if s == nil || s.name != name {
			continue
		}
		if s.alias != "" {
			s = siteNamed(s.alias)
		}
		for _, a := range s.addrs {
			addr := netip.MustParseAddr(a)
			if !meant(a) {
				continue
			}
			for _, p := range []string{"80", "443"} {
				if port != "" {
					p = port
				}
				n, _ := strconv.Atoi(p)
				packets[fmt.Sprint("tcp ", netip.AddrPortFrom(addr, uint16(n)))] = true
			}
		}
	}
	return names, packets
}

// meant reports whether an address belongs to the good sites.
func meant(addr string) bool {
	return strings.HasPrefix(addr, "203.0.113.") || strings.HasPrefix(addr, "2001:db8:99:")
}

// aliasOf returns the alias of a site's name.
func aliasOf(name string) string {
	for _, s := range allSites {
		if s.alias == name {
			return s.name
		}
	}
	return name
}

// about reports whether a request's Host, and its URL if that has a host, are name.
func about(request, name string) bool {
	_, rest, _ := strings.Cut(request, "host=")
	asked, url, _ := strings.Cut(rest, " url=")
	for _, h := range []string{asked, url} {
		h, _, _ = strings.Cut(strings.ToLower(h), ":")
		h = strings.TrimSuffix(h, ".")
		if h != "" && h != name && h != aliasOf(name) {
			return false
		}
	}
	return asked != ""
}
