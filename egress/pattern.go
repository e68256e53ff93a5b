package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// pattern is a parsed pattern of a policy.
type pattern struct {
	name string // canonical: example.com, *.example.com, or *
	port int    // 0 when the pattern has none
}

func parsePattern(text string) (pattern, error) {
	host, port, err := splitPort(text)
	if err != nil {
		return pattern{}, err
	}
	if host == "*" {
		return pattern{host, port}, nil
	}
	below, wildcard := strings.CutPrefix(host, "*.")
	switch {
	case strings.Contains(below, "*"):
		return pattern{}, errors.New("a * can only stand for the first part, as in *.example.com")
	case strings.HasPrefix(below, ".") && !wildcard:
		return pattern{}, fmt.Errorf("write *%s for the names below it", printableLine(below))
	}
	name, err := canonical(below)
	if wildcard {
		name = "*." + name
	}
	return pattern{name, port}, err
}

// Canonical returns the canonical form of a pattern, in ASCII, so that a displayed pattern can't look like another
// name.
func Canonical(text string) (string, error) {
	p, err := parsePattern(text)
	if err != nil {
		return "", err
	}
	if p.port != 0 {
		return p.name + ":" + strconv.Itoa(p.port), nil
	}
	return p.name, nil
}

// ports returns the ports that rules must allow to cover p.
func (p pattern) ports() []int {
	if p.port != 0 {
		return []int{p.port}
	}
	return webPorts[:]
}

// splitPort splits off a decimal port. The host is not checked.
func splitPort(text string) (host string, port int, err error) {
	if strings.Contains(text, "://") {
		return "", 0, errors.New("expected a host name, not a URL: remove the scheme and the path")
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
		return "", 0, fmt.Errorf("%s is not a port: write one number from 1 to 65535 after the colon", quote(digits))
	}
	return host, port, nil
}

// checkNarrow refuses wildcards over names that strangers, and so an attacker, can register. Only registry suffixes
// (com, co.uk) count; those of companies (github.io, githubusercontent.com) are the operator's decision.
func (p pattern) checkNarrow() error {
	if p.name == "*" {
		return errors.New("a bare * would allow every name: list the names, or use *.example.com")
	}
	below, wildcard := strings.CutPrefix(p.name, "*.")
	suffix, registry := publicsuffix.PublicSuffix(below)
	if wildcard && suffix == below && (registry || !strings.Contains(below, ".")) {
		return fmt.Errorf("anyone can register names below %s: allow narrower names, such as *.example.%s", below, below)
	}
	return nil
}

func printableLine(s string) string {
	q := quote(s)
	return q[1 : len(q)-1]
}
