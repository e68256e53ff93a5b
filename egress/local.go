package egress

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Local is the name of the machine itself. A program may reach only the ports that the operator has opened: see
// Policy.WithLocal and Dialer.Local. Patterns can't name it. On all other ports, it is the sandbox itself.
const Local = "localhost"

func isLocal(name string) bool { return strings.EqualFold(strings.TrimSuffix(name, "."), Local) }

// WithLocal returns p plus these ports of the machine's loopback, unless all names are denied.
func (p Policy) WithLocal(ports []int) Policy {
	p.local = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.local, ports))))
	return p
}

// decideLocal is Decide for Local; ok is false for other names.
func (p Policy) decideLocal(name string, port int) (Decision, bool) {
	if !isLocal(name) || !slices.Contains(p.local, port) {
		return Decision{}, false
	}
	d := Decision{Name: Local, Port: port}
	if denied, _ := p.deny.findPattern(Local, port); denied != "" {
		d.Reason = "the policy denies " + denied
		return d, true
	}
	d.Allowed, d.Reason = true, fmt.Sprintf("a person has opened port %d of this machine", port)
	return d, true
}

// CutLocal splits patterns into the ports of Local patterns, such as localhost:3000, and the other patterns. A Local
// pattern without a port stays among these, where it is an error.
func CutLocal(patterns []string) (local []int, others []string) {
	for _, text := range patterns {
		name, digits, _ := strings.Cut(text, ":")
		port, err := strconv.Atoi(digits)
		if isLocal(name) && err == nil && port > 0 && port < 1<<16 && digits == strconv.Itoa(port) {
			local = append(local, port)
			continue
		}
		others = append(others, text)
	}
	return local, others
}

// dialLocal connects to a port of the machine that the operator has opened, on either loopback address.
func (d *Dialer) dialLocal(ctx context.Context, port int) (conn net.Conn, err error) {
	if !slices.Contains(d.Local, port) {
		return nil, fmt.Errorf("port %d of this machine is not open to it: its operator opens it, with egress.local in the configuration", port)
	}
	for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		var dialer net.Dialer
		dialer.SetMultipathTCP(false)
		var failed error
		if conn, failed = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(a, uint16(port)).String()); failed == nil {
			return conn, nil
		}
		err = cmp.Or(err, failed)
	}
	return nil, fmt.Errorf("nothing answers on port %d of this machine: %w", port, err)
}
