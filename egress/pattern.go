package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// pattern is a line of a policy.
type pattern struct {
	name     string // canonical, without the *. ; "" for a bare *
	wildcard bool
	port     int // 0 when the pattern has none
}

func parsePattern(text string) (pattern, error) {
	host, port, err := cutPort(text)
	if err != nil {
		return pattern{}, err
	}
	p := pattern{port: port}
	if host == "*" {
		p.wildcard = true
		return p, nil
	}
	host, p.wildcard = strings.CutPrefix(host, "*.")
	switch {
	case strings.Contains(host, "*"):
		return pattern{}, errors.New("a * can only stand for the first part, as in *.example.com")
	case strings.HasPrefix(host, ".") && !p.wildcard:
		return pattern{}, fmt.Errorf("write *%s for the names below it", printable(host))
	}
	p.name, err = canonical(host)
	return p, err
}

// Canonical returns the common spelling of a pattern, which is ASCII: a pattern that people see must not look like
// another name.
func Canonical(text string) (string, error) {
	p, err := parsePattern(text)
	if err != nil {
		return "", err
	}
	all := p.name
	if p.wildcard {
		all = strings.TrimSuffix("*."+all, ".")
	}
	if p.port != 0 {
		all += ":" + strconv.Itoa(p.port)
	}
	return all, nil
}

// asks returns the name and the ports to find in rules that cover all of p: no exact rule has the name of a wildcard,
// so only wildcards match it, those that are as wide or wider.
func (p pattern) asks() (name string, ports []int) {
	name, ports = p.name, webPorts[:]
	if p.wildcard {
		name = "*." + name
	}
	if p.port != 0 {
		ports = []int{p.port}
	}
	return name, ports
}

// cutPort cuts a decimal port off. The host is not checked.
func cutPort(text string) (host string, port int, err error) {
	if strings.Contains(text, "://") {
		return "", 0, errors.New("a host name is wanted, not a URL: leave out the scheme and the path")
	}
	if strings.Contains(text, "@") {
		return "", 0, errNoHost
	}
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text, 0, nil
	}
	host, digits := text[:i], text[i+1:]
	if strings.ContainsAny(host, ":[]") {
		return "", 0, errAddress
	}
	port, err = strconv.Atoi(digits)
	if err != nil || port < 1 || port > 65535 || digits != strconv.Itoa(port) {
		return "", 0, fmt.Errorf("%s is no port: write one number from 1 to 65535 after the colon", quote(digits))
	}
	return host, port, nil
}

// narrow refuses wildcards over names that strangers can register: whoever owns the program could
// own one of them, too. Only suffixes run by registries (com, co.uk) count; those of companies
// (github.io, githubusercontent.com) are for the operator to judge.
func (p pattern) narrow() error {
	if !p.wildcard {
		return nil
	}
	if p.name == "" {
		return errors.New("a bare * would allow every name: list the names, or use *.example.com")
	}
	suffix, registry := publicsuffix.PublicSuffix(p.name)
	if suffix == p.name && (registry || !strings.Contains(p.name, ".")) {
		return fmt.Errorf("anyone can register names below %s: allow narrower names, such as *.example.%s", p.name, p.name)
	}
	return nil
}

func printable(s string) string {
	q := quote(s)
	return q[1 : len(q)-1]
}
