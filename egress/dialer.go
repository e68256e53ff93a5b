package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

const (
	dialTimeout  = 15 * time.Second       // shorter than most programs' timeouts, so that they see the reason
	attemptDelay = 250 * time.Millisecond // between attempts, RFC 8305 section 5
	maxAttempts  = 16                     // maximum number of tried addresses of a name
)

// Dialer connects to names. It resolves them itself, refuses addresses that are not public, and connects to the checked
// address, so that DNS rebinding has no effect. The zero value is the strictest dialer. It is safe for concurrent use,
// and must not be copied or changed after its first use.
type Dialer struct {
	Resolver Resolver       // nil is this machine's
	Networks []netip.Prefix // allowed besides public addresses, see ParseNetwork
	Local    []int          // ports of this machine's loopback, reachable as Local; only the operator opens them
	Timeout  time.Duration  // of Dial: resolving and connecting; 0 is 15 seconds

	lookups lazy.Cache[[]netip.Addr] // of lookups, by name
	failed  lazy.Cache[error]
	own     machineAddresses
}

// Dial connects to a port of name by TCP. Its errors are a single line that may be shown to the program.
func (d *Dialer) Dial(ctx context.Context, name string, port int) (net.Conn, error) {
	return d.dial(ctx, name, port, nil)
}

// DialWithout returns a Dial that refuses the addresses in networks(), called for each connection, for every name.
func (d *Dialer) DialWithout(networks func() []netip.Prefix) func(ctx context.Context, name string, port int) (net.Conn, error) {
	return func(ctx context.Context, name string, port int) (net.Conn, error) {
		return d.dial(ctx, name, port, networks())
	}
}

func (d *Dialer) dial(ctx context.Context, name string, port int, without []netip.Prefix) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("%d is not a TCP port: ports are 1 to 65535", port)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, dialTimeout))
	defer cancel()
	if isLocal(name) {
		return d.dialLocal(ctx, port)
	}
	host, err := canonical(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote(name), err)
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	addrs = interleave(addrs)
	addrs = addrs[:min(len(addrs), maxAttempts)]
	conn, failures := d.dialFirst(ctx, addrs, uint16(port), without)
	if conn == nil {
		return nil, bestError(ctx, host, failures)
	}
	return conn, nil
}

// interleave alternates IPv4 and IPv6 addresses, and keeps their order otherwise: on a network where one of the two
// fails, it costs one attempt.
func interleave(addrs []netip.Addr) []netip.Addr {
	first := addrs[0].Is4()
	var same, other, mixed []netip.Addr
	for _, a := range addrs {
		if a.Is4() == first {
			same = append(same, a)
		} else {
			other = append(other, a)
		}
	}
	for i := range max(len(same), len(other)) {
		mixed = append(mixed, same[min(i, len(same)):min(i+1, len(same))]...)
		mixed = append(mixed, other[min(i, len(other)):min(i+1, len(other))]...)
	}
	return mixed
}

// attempt is the result of a connection attempt.
type attempt struct {
	to   netip.AddrPort
	conn net.Conn
	err  error
}

// dialFirst connects to the first address that answers, as in RFC 8305: it tries the next one when an attempt fails, or
// has no answer for attemptDelay. It returns after all attempts have ended.
func (d *Dialer) dialFirst(ctx context.Context, addrs []netip.Addr, port uint16, without []netip.Prefix) (net.Conn, []attempt) {
	if len(addrs) == 1 {
		a := d.connect(ctx, netip.AddrPortFrom(addrs[0], port), without)
		return a.conn, []attempt{a}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan attempt)
	var won net.Conn
	var failures []attempt
	next := time.NewTimer(0)
	defer next.Stop()
	for running := 0; running > 0 || won == nil && len(addrs) > 0; {
		select {
		case <-next.C:
			if won == nil && len(addrs) > 0 {
				to := netip.AddrPortFrom(addrs[0], port)
				go func() { results <- d.connect(ctx, to, without) }()
				addrs = addrs[1:]
				running++
				next.Reset(attemptDelay)
			}
		case a := <-results:
			running--
			switch {
			case a.err != nil:
				failures = append(failures, a)
				next.Reset(0)
			case won == nil:
				won = a.conn
				cancel()
			default:
				a.conn.Close()
			}
		}
	}
	return won, failures
}

// connect connects, and checks the address again right before the system call.
func (d *Dialer) connect(ctx context.Context, to netip.AddrPort, without []netip.Prefix) attempt {
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if why := d.RefusalOf(at.Addr()); why != "" {
			return &Blocked{Addr: at.Addr(), Why: why}
		}
		if slices.ContainsFunc(without, func(p netip.Prefix) bool { return includes(p, at.Addr()) }) {
			return &Blocked{Addr: at.Addr(), BySandbox: true}
		}
		return nil
	}}
	dialer.SetMultipathTCP(false) // MPTCP could add other addresses to the connection
	conn, err := dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, to)
	if err != nil {
		return attempt{to: to, err: err} // a nil *net.TCPConn would be a non-nil net.Conn
	}
	return attempt{to: to, conn: conn}
}

// bestError returns the most informative error of the failed attempts.
func bestError(ctx context.Context, name string, failures []attempt) error {
	worth := func(a attempt) int {
		switch {
		case errors.As(a.err, new(*Blocked)):
			return 3
		case errors.Is(a.err, syscall.ECONNREFUSED):
			return 2
		case errors.Is(a.err, syscall.ENETUNREACH), errors.Is(a.err, syscall.EADDRNOTAVAIL):
			return 0 // mostly IPv6 on a host without it
		}
		return 1
	}
	a := slices.MaxFunc(failures, func(a, b attempt) int { return cmp.Compare(worth(a), worth(b)) })
	var blocked *Blocked
	var number syscall.Errno
	var timeout net.Error // the socket's deadline may expire before ctx
	switch {
	case errors.As(a.err, &blocked):
		blocked.Name = name
		return blocked
	case errors.As(a.err, &number):
		return fmt.Errorf("%s: %w at %s", name, number, a.to)
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("connect to %s: %w", name, ctx.Err())
	case ctx.Err() != nil, errors.As(a.err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%s: no answer from %s in time", name, a.to)
	}
	return fmt.Errorf("%s: %w", name, a.err)
}
