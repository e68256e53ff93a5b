package egress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Decision is the answer to "may it connect to this name on this port?".
type Decision struct {
	Name    string `json:"name"`           // canonical: lower case, ASCII, no final dot; quoted and shortened if it is not a name
	Port    int    `json:"port,omitempty"` // 0 from Lookup
	Allowed bool   `json:"allowed"`
	Failed  bool   `json:"failed,omitempty"` // it was allowed, but the connection failed for Reason
	Reason  string `json:"reason"`           // one line for a person or a model: the rule, or the domain to ask for
	Ask     string `json:"ask,omitempty"`    // the narrowest pattern that would allow it, "" if none would
}

// Record is one decision, its number of occurrences and the bytes that moved.
type Record struct {
	Decision
	Count    int64 `json:"count,omitempty"`    // connections, or for Port 0 DNS queries that were refused
	Sent     int64 `json:"sent,omitempty"`     // bytes to the name
	Received int64 `json:"received,omitempty"` // bytes from it
}

// Host returns the name and, unless it is 0, the port.
func (d Decision) Host() string {
	if d.Port == 0 {
		return d.Name
	}
	return fmt.Sprintf("%s:%d", d.Name, d.Port)
}

// Why returns Reason without the advice to ask for a domain, for callers that can't ask, or that add their own advice.
func (d Decision) Why() string {
	why, _ := strings.CutSuffix(d.Reason, "ask for the domain "+d.Ask)
	why, _ = strings.CutSuffix(why, ": to use "+d.Name+", ")
	return strings.TrimSuffix(why, ": ")
}

// Decide accepts any name and port, and never panics. A malformed name is not allowed.
func (p Policy) Decide(name string, port int) Decision {
	if d, known := p.decideLocal(name, port); known {
		return d
	}
	host, err := canonical(name)
	if err != nil {
		return Decision{Name: quote(name), Port: port, Reason: quote(name) + ": " + err.Error()}
	}
	d := Decision{Name: host, Port: port}
	denied, _ := p.deny.findPattern(host, port)
	pattern, others := p.allow.findPattern(host, port)
	switch {
	case port < 1 || port > 65535:
		d.Reason = fmt.Sprintf("%d is not a TCP port: ports are 1 to 65535", port)
	case denied != "":
		d.Reason = fmt.Sprintf("the policy denies %s", denied)
	case pattern != "":
		d.Allowed, d.Reason = true, fmt.Sprintf("allowed by %s", pattern)
	case len(others) > 0:
		d.Ask = host + ":" + strconv.Itoa(port)
		d.Reason = fmt.Sprintf("%s is allowed on %s, not on port %d: ask for the domain %s", host, others, port, d.Ask)
	default:
		d.Ask = suggest(host, port)
		d.Reason = p.notAllowedReason(d)
	}
	return d
}

// Lookup reports whether any port of name is allowed, for DNS, which has no ports.
func (p Policy) Lookup(name string) Decision {
	host, err := canonical(name)
	if err != nil {
		return Decision{Name: quote(name), Reason: quote(name) + ": " + err.Error()}
	}
	d := Decision{Name: host}
	denied, _ := p.deny.findPattern(host, 0)
	_, open := p.allow.findPattern(host, 0)
	switch {
	case denied != "":
		d.Reason = fmt.Sprintf("the policy denies %s", denied)
	case len(open) == 0:
		d.Ask = host
		d.Reason = p.notAllowedReason(d)
	default:
		slices.Sort(open)
		for i := 0; i < len(open) && !d.Allowed; i++ {
			d = p.Decide(host, open[i])
		}
		d.Port = 0
	}
	return d
}

// notAllowedReason returns the reason for a name without allowed ports, with the domain to ask for.
func (p Policy) notAllowedReason(d Decision) string {
	if p.Empty() {
		return fmt.Sprintf("no network is allowed here: to use %s, ask for the domain %s", d.Name, d.Ask)
	}
	return fmt.Sprintf("%s is not among the allowed domains: ask for the domain %s", d.Name, d.Ask)
}

// suggest returns the narrowest pattern that would allow name on port.
func suggest(name string, port int) string {
	if slices.Contains(webPorts[:], port) {
		return name
	}
	return name + ":" + strconv.Itoa(port)
}

// String returns "port 80" or "ports 80 and 443".
func (p ports) String() string {
	sorted := slices.Compact(slices.Sorted(slices.Values(p)))
	words := make([]string, len(sorted))
	for i, n := range sorted {
		words[i] = strconv.Itoa(n)
	}
	if len(words) == 1 {
		return "port " + words[0]
	}
	last := len(words) - 1
	return "ports " + strings.Join(words[:last], ", ") + " and " + words[last]
}
