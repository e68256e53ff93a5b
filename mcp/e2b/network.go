package e2b

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// networkConfig is a sandbox's network in E2B's API.
type networkConfig struct {
	AllowPublicTraffic *bool             `json:"allowPublicTraffic,omitempty"`
	AllowOut           []string          `json:"allowOut,omitempty"`
	DenyOut            []string          `json:"denyOut,omitempty"`
	EgressProxy        *struct{}         `json:"egressProxy,omitempty"`
	MaskRequestHost    string            `json:"maskRequestHost,omitempty"`
	Rules              map[string][]rule `json:"rules,omitempty"`
}

// rule transforms requests to a host.
type rule struct {
	Transform *struct {
		Headers map[string]string `json:"headers,omitempty"`
	} `json:"transform,omitempty"`
}

// everything is the protocol's notation for all addresses.
const everything = "0.0.0.0/0"

// validMask reports whether host may replace the public Host in requests to ports of a sandbox.
func validMask(host string) bool {
	name, port, found := strings.Cut(host, ":")
	_, err := strconv.ParseUint(port, 10, 16)
	return host == "" || len(host) < 300 && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '.' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) && (!found || port == maskPort || err == nil)
}

// maskPort stands for the requested port.
const maskPort = "${PORT}"

// maskedHost returns the Host of requests to a port of the sandbox, or "" for the client's own.
func (b *Sandbox) maskedHost(port int) string {
	if _, network := b.networkSettings(); network != nil {
		return strings.ReplaceAll(network.MaskRequestHost, maskPort, strconv.Itoa(port))
	}
	return ""
}

// isPublic reports whether everyone may use the host names of a sandbox's ports.
func (b *Sandbox) isPublic() bool {
	_, network := b.networkSettings()
	return network == nil || network.AllowPublicTraffic == nil || *network.AllowPublicTraffic
}

// withoutValues returns the network without the values of headers, which may be secrets.
func (n *networkConfig) withoutValues() *networkConfig {
	if n == nil {
		return nil
	}
	visible := *n
	visible.Rules = map[string][]rule{}
	for host := range n.Rules {
		visible.Rules[host] = []rule{}
	}
	return &visible
}

// rules returns the rules for the pipeline, or why it can't enforce the network.
func (n *networkConfig) rules(internet *bool) (rules session.Network, err error) {
	no := func(format string, a ...any) (session.Network, error) {
		return rules, door.Refuse(http.StatusBadRequest, fmt.Sprintf(format, a...))
	}
	if n == nil {
		n = &networkConfig{}
	}
	switch {
	case n.EgressProxy != nil:
		return no("egressProxy is not supported: all traffic goes through this server's gateway")
	case !validMask(n.MaskRequestHost):
		return no("mask request host is not valid: use a host, optionally with a port or ${PORT}")
	}
	all := internet != nil && !*internet
	for _, entry := range n.DenyOut {
		if entry == everything || entry == "::/0" {
			all = true
			continue
		}
		prefix, err := parsePrefix(entry)
		if err != nil {
			return no("denyOut: %.100q is not an address or a network: to deny a name, omit it from allowOut", entry)
		}
		rules.Deny = append(rules.Deny, prefix)
	}
	for _, entry := range n.AllowOut {
		if entry == everything {
			if all {
				return no("allowOut and denyOut both name all addresses")
			}
			continue
		}
		if _, err := parsePrefix(entry); err == nil {
			return no("allowOut: addresses such as %s are not reachable: use a host name", entry)
		}
		if !all {
			return no("allowOut has names, so denyOut needs 0.0.0.0/0: otherwise everything else would be allowed, too")
		}
		rules.Allow = append(rules.Allow, entry)
	}
	if all && rules.Allow == nil {
		rules.Allow = []string{}
	}
	rules.Headers, err = n.headers()
	return rules, err
}

func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if a := p.Addr(); err == nil && a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), err
}

// headers returns the headers to add to requests, by host.
func (n *networkConfig) headers() (list []session.Header, err error) {
	for host, rules := range n.Rules {
		for _, r := range rules {
			if r.Transform == nil {
				continue
			}
			for name, value := range r.Transform.Headers {
				if strings.Contains(value, "${e2b.") {
					return nil, door.Refuse(http.StatusBadRequest, "rules: placeholders in headers are not supported: send the value")
				}
				list = append(list, session.Header{Host: host, Name: name, Value: value})
			}
		}
	}
	slices.SortFunc(list, func(a, b session.Header) int { return strings.Compare(a.Host+"\x00"+a.Name, b.Host+"\x00"+b.Name) })
	return list, nil
}

// setNetwork replaces a sandbox's network rules.
func (s *Server) setNetwork(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	var q struct {
		networkConfig
		InternetAccess *bool `json:"allow_internet_access"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	rules, err := q.rules(q.InternetAccess)
	if err != nil {
		return err
	}
	if _, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, session.SetNetwork{
		Namespace: b.Namespace, Session: b.session(), Network: rules,
	}); err != nil {
		return err
	}
	b.mu.Lock()
	if q.AllowPublicTraffic == nil && b.network != nil { // a change of outbound rules leaves inbound access as it is
		q.AllowPublicTraffic = b.network.AllowPublicTraffic
	}
	if q.MaskRequestHost == "" && b.network != nil {
		q.MaskRequestHost = b.network.MaskRequestHost
	}
	b.internet, b.network = q.InternetAccess, &q.networkConfig
	b.mu.Unlock()
	return door.Reply(w, http.StatusNoContent, nil)
}
