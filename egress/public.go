package egress

import "fmt"

// PublicWeb returns the policy that allows every name on the ports of the web, but for the denied patterns. No
// program of a caller gets it: it is for what is read on behalf of one, by a Dialer, which goes nowhere but to
// the public internet and the networks that the operator names.
func PublicWeb(deny []string) (Policy, error) {
	p, err := NewPolicy(nil, deny)
	if err != nil {
		return p, fmt.Errorf("the public web: %w", err)
	}
	p.allow.add(pattern{wildcard: true}, webPorts[:])
	return p, nil
}
