package web

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// Trip is the web access of one tool call, with its checks and its records. It is safe for concurrent use, and must not
// be copied.
type Trip struct {
	// Check refuses an address before anything is sent to it; nil refuses none.
	Check func(address string) error
	// Record is called for each decision before it has an effect. Its error prevents the connection. Nil records nothing.
	Record func(context.Context, egress.Decision) error

	mu       sync.Mutex
	contacts []*contact
}

// Unrecorded is the error for a decision that could not be recorded, and so had no effect.
type Unrecorded struct{ err error }

func (u *Unrecorded) Error() string { return "the decision can't be recorded: " + u.err.Error() }

func (u *Unrecorded) Unwrap() error { return u.err }

// contact is a decision with its counts.
type contact struct {
	egress.Decision
	count          int64 // connections
	sent, received atomic.Int64
}

// Contacts returns all decisions so far, in the order of their first occurrence.
func (t *Trip) Contacts() (all []egress.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.contacts {
		all = append(all, egress.Record{Decision: c.Decision, Count: c.count, Sent: c.sent.Load(), Received: c.received.Load()})
	}
	return all
}

// checkAddress decides about an address, and sets its host to the canonical form.
func (t *Trip) checkAddress(ctx context.Context, policy egress.Policy, at *url.URL) error {
	if t.Check != nil {
		if err := t.Check(at.String()); err != nil {
			return err
		}
	}
	n, err := Port(at)
	if err != nil {
		return err
	}
	d := policy.Decide(at.Hostname(), n)
	if !d.Allowed {
		if _, err := t.recordDecision(ctx, d); err != nil {
			return err
		}
		return notAllowed(at.Hostname(), d.Why())
	}
	at.Host = d.Name
	if n != 443 && at.Scheme == "https" || n != 80 && at.Scheme == "http" {
		at.Host = net.JoinHostPort(d.Name, strconv.Itoa(n))
	}
	return nil
}

// dial returns the dial function of a call's transport. Its connections end with the call, since a transport keeps an
// HTTP/2 connection after a cancelled response. It decides again, about the address that the transport really dials.
func (t *Trip) dial(call context.Context, dialer *egress.Dialer, policy egress.Policy) func(context.Context, string, string) (net.Conn,
	error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		host, digits, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return nil, err
		}
		d := policy.Decide(host, n)
		contact, err := t.recordDecision(ctx, d)
		if err != nil {
			return nil, err
		}
		if !d.Allowed {
			return nil, notAllowed(host, d.Why())
		}
		conn, err := dialer.Dial(ctx, d.Name, d.Port)
		if err != nil {
			return nil, t.recordFailure(ctx, contact, err)
		}
		context.AfterFunc(call, func() { conn.Close() })
		return countedConn{conn, contact}, nil
	}
}

// recordFailure records a failed connection. A refused address is a denial.
func (t *Trip) recordFailure(ctx context.Context, allowed *contact, err error) error {
	d := allowed.Decision
	d.Failed, d.Reason = true, err.Error()
	if _, noteErr := t.recordDecision(context.WithoutCancel(ctx), d); noteErr != nil {
		return noteErr
	}
	t.mu.Lock()
	allowed.count--
	t.contacts = slices.DeleteFunc(t.contacts, func(c *contact) bool { return c.count == 0 })
	t.mu.Unlock()
	if errors.As(err, new(*egress.Blocked)) {
		return refused("%v", err)
	}
	return err
}

// recordDecision records a decision, and counts equal ones.
func (t *Trip) recordDecision(ctx context.Context, d egress.Decision) (*contact, error) {
	if t.Record != nil {
		if err := t.Record(ctx, d); err != nil {
			return nil, &Unrecorded{err}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.contacts {
		if c.Decision == d {
			c.count++
			return c, nil
		}
	}
	c := &contact{Decision: d, count: 1}
	t.contacts = append(t.contacts, c)
	return c, nil
}

// countedConn is a connection that counts bytes.
type countedConn struct {
	net.Conn
	*contact
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}
