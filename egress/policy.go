// Package egress decides which names a program may connect to, and why.
package egress

import (
	"fmt"
	"slices"
	"strings"
)

// Policy says which names may be connected to, on which ports. The zero value allows nothing. A
// Policy never changes, and may be used by many goroutines.
//
// A pattern is one of
//
//	example.com         this name on ports 80 and 443
//	*.example.com       every name below it, at any depth, on ports 80 and 443; not example.com
//	example.com:5432    this name on this port only (*.example.com:5432 likewise)
//
// Among the denied patterns one without a port means all ports, and a bare * denies everything. Denied patterns take
// precedence over allowed ones, whichever is more exact. Addresses are never allowed: a program has no route to them,
// and people can judge only names.
type Policy struct {
	allow, deny rules
	local       ports // of the machine itself: see WithLocal
}

// rules map the names of patterns to ports: example.com, *.example.com, or a bare *. Finding the pattern for a name
// takes one lookup for the name, and one for each of its parents.
type rules map[string]ports

// ports are the ports of a pattern. Port 0 is all ports.
type ports []int

// webPorts are the ports of a pattern without a port: a bare domain means "the web site".
var webPorts = [...]int{80, 443}

// WebPorts returns the ports of a pattern without a port.
func WebPorts() []int { return slices.Clone(webPorts[:]) }

// maxPatterns bounds the memory of an untrusted policy.
const maxPatterns = 10_000

// NewPolicy returns the policy of these patterns. A malformed pattern, or one that allows too much (* or *.com), is an
// error with advice.
func NewPolicy(allow, deny []string) (Policy, error) {
	if n := len(allow) + len(deny); n > maxPatterns {
		return Policy{}, fmt.Errorf("%d domain patterns are too many: at most %d", n, maxPatterns)
	}
	p := Policy{allow: rules{}, deny: rules{}}
	for _, text := range allow {
		pat, err := parsePattern(text)
		if err == nil {
			err = pat.checkNarrow()
		}
		if err != nil {
			return Policy{}, fmt.Errorf("allowed domain %s: %w", quote(text), err)
		}
		p.allow.addPattern(pat, webPorts[:])
	}
	for _, text := range deny {
		pat, err := parsePattern(text)
		if err != nil {
			return Policy{}, fmt.Errorf("denied domain %s: %w", quote(text), err)
		}
		p.deny.addPattern(pat, []int{0})
	}
	return p, nil
}

func (r rules) addPattern(p pattern, byDefault []int) {
	add := byDefault
	if p.port != 0 {
		add = []int{p.port}
	}
	for _, port := range add {
		if !slices.Contains(r[p.name], port) {
			r[p.name] = append(r[p.name], port)
		}
	}
}

// findPattern returns the pattern that covers name on port, or else the other ports on which patterns cover the name.
func (r rules) findPattern(name string, port int) (pattern string, others ports) {
	covers := func(p ports) bool {
		others = append(others, p...)
		return slices.Contains(p, port) || slices.Contains(p, 0)
	}
	if covers(r[name]) {
		return name, nil
	}
	for rest := strings.TrimPrefix(name, "*."); rest != ""; {
		if _, rest, _ = strings.Cut(rest, "."); rest != "" && covers(r["*."+rest]) {
			return "*." + rest, nil
		}
	}
	if covers(r["*"]) {
		return "*", nil
	}
	return "", others
}

// Covers reports whether the policy already allows everything that a pattern would allow. It is false if a denied
// pattern covers the whole pattern on some port; a denied pattern that excludes only some names does not count, since
// Decide excludes them anyway. A malformed pattern is not covered.
func (p Policy) Covers(pattern string) bool {
	pat, err := parsePattern(pattern)
	if err != nil {
		return false
	}
	for _, port := range pat.ports() {
		allowed, _ := p.allow.findPattern(pat.name, port)
		if denied, _ := p.deny.findPattern(pat.name, port); allowed == "" || denied != "" {
			return false
		}
	}
	return true
}

// Denies returns a denied pattern that covers the whole of a pattern on one of its ports. A malformed pattern is not
// denied.
func (p Policy) Denies(pattern string) (by string, denied bool) {
	pat, err := parsePattern(pattern)
	if err != nil {
		return "", true
	}
	for _, port := range pat.ports() {
		if by, _ = p.deny.findPattern(pat.name, port); by != "" {
			return by, true
		}
	}
	return "", false
}

// Denied returns the denied pattern that covers a port of name; port 0 is all its ports. A malformed name is not
// denied.
func (p Policy) Denied(name string, port int) (pattern string, denied bool) {
	host, err := canonical(name)
	if err != nil {
		return "", true
	}
	pattern, _ = p.deny.findPattern(host, port)
	return pattern, pattern != ""
}

// Empty reports whether the policy allows nothing at all.
func (p Policy) Empty() bool {
	return len(p.allow)+len(p.local) == 0
}

// Allowed returns the allowed patterns, sorted. Denied patterns may exclude some of their names.
func (p Policy) Allowed() (patterns []string) {
	for name, ps := range p.allow {
		web := !slices.ContainsFunc(webPorts[:], func(port int) bool { return !slices.Contains(ps, port) })
		if web {
			patterns = append(patterns, name)
		}
		for _, port := range ps {
			if !web || !slices.Contains(webPorts[:], port) {
				patterns = append(patterns, fmt.Sprintf("%s:%d", name, port))
			}
		}
	}
	for _, port := range p.local {
		patterns = append(patterns, fmt.Sprintf("%s:%d", Local, port))
	}
	slices.Sort(patterns)
	return patterns
}

// Ports returns the ports that allowed patterns name, and those of the machine itself, ascending.
func (p Policy) Ports() []int {
	all := slices.Clone([]int(p.local))
	for _, ps := range p.allow {
		all = append(all, ps...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// PublicWeb returns the policy that allows every name on the ports of the web, but for the denied patterns. It is not
// for programs, but for the server's own requests on their behalf, with a Dialer, which reaches only the public
// internet and the operator's networks.
func PublicWeb(deny []string) (Policy, error) {
	p, err := NewPolicy(nil, deny)
	if err != nil {
		return p, fmt.Errorf("the public web: %w", err)
	}
	p.allow.addPattern(pattern{name: "*"}, webPorts[:])
	return p, nil
}
