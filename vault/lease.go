package vault

import (
	"errors"
	"slices"
	"sync"
)

// ErrClosed is the error of a Redactor whose lease was closed before it.
var ErrClosed = errors.New("the lease of the secrets is closed")

// Lease holds the secrets of one run. A nil or empty Lease has none, lets all text pass, and costs nothing. It is safe
// for concurrent use.
//
// Values that occur in ordinary text are leased but not redacted: see Unredacted. The value of a bound secret is
// redacted like any other, since it may come back in a response; its placeholder is not, since it is worthless outside
// the run.
type Lease struct {
	// inner returns the leased secrets. It is a function because printers, loggers and dumpers don't read closures. nil is
	// no secrets.
	inner func() *leased
}

type leased struct {
	mu         sync.RWMutex // held for reading while values are in use
	closed     bool
	secrets    []secret
	matcher    *matcher // nil if nothing is redacted
	unredacted []string // names of the secrets that are not redacted
	memory     *slab    // of the values, and of the matcher's copies
}

type secret struct {
	name        string
	value       []byte
	to          Binding
	placeholder string // of a bound one
	header      string // of a bound one, see Bound
}

// newLease takes ownership of the values.
func newLease(secrets []secret, p *pages) *Lease {
	in := &leased{secrets: secrets}
	var parts, keys [][]byte
	rest := make([][][]byte, len(secrets))
	for i, s := range secrets {
		if s.to.isBound() {
			secrets[i].placeholder = newPlaceholder()
		}
		rest[i] = redactableParts(s.value)
		if len(rest[i]) == 0 {
			in.unredacted = append(in.unredacted, s.name)
			continue
		}
		keys = append(keys, pemEdges(s.value)...)
	}
	// Whole values come before their lines: maxValues cuts the lines first.
	for more := true; more; {
		more = false
		for i := range rest {
			if len(rest[i]) == 0 {
				continue
			}
			if len(parts) < maxValues {
				parts = append(parts, rest[i][0])
			} else {
				clear(rest[i][0])
			}
			rest[i], more = rest[i][1:], true
		}
	}
	in.moveTo(p, parts, keys)
	in.matcher = newMatcher(parts, keys)
	return &Lease{func() *leased { return in }}
}

// moveTo moves the values and the lists of their parts into the lease's own memory.
func (in *leased) moveTo(p *pages, lists ...[][]byte) {
	size := 0
	for _, s := range in.secrets {
		size += len(s.value)
	}
	for _, part := range slices.Concat(lists...) {
		size += len(part)
	}
	in.memory = p.allocate(size)
	for i := range in.secrets {
		in.secrets[i].value = in.memory.move(in.secrets[i].value)
	}
	for _, list := range lists {
		for i := range list {
			list[i] = in.memory.move(list[i])
		}
	}
}

// Names returns the names of the secrets in the order of the request.
func (l *Lease) Names() []string {
	if l.isEmpty() {
		return nil
	}
	var names []string
	for _, s := range l.inner().secrets {
		names = append(names, s.name)
	}
	return names
}

// Unredacted returns the names of the leased secrets that are not redacted, because their values occur in ordinary
// text, too: shorter than 6 bytes, fewer than 3 different bytes, or a common word such as "password". White space at
// the ends does not count.
func (l *Lease) Unredacted() []string {
	if l.isEmpty() {
		return nil
	}
	return slices.Clone(l.inner().unredacted)
}

// Env returns the secrets as KEY=VALUE, for the environment of the program; a bound secret has its placeholder as the
// value. The strings are copies that Close can't wipe: pass them on at once, and keep no reference.
func (l *Lease) Env() []string {
	if l.isEmpty() {
		return nil
	}
	in := l.inner()
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.closed {
		return nil
	}
	var env []string
	for _, s := range in.secrets {
		value := s.placeholder
		if !s.to.isBound() {
			value = string(s.value)
		}
		env = append(env, s.name+"="+value)
	}
	return env
}

// Redact returns s with Mark in place of each secret. After Close it returns s unchanged.
func (l *Lease) Redact(s string) string {
	m, release, err := l.acquireMatcher()
	if m == nil || err != nil {
		return s
	}
	defer release()
	return redactText(m, s)
}

// feed holds the lease's lock only while it scans text.
func (l *Lease) feed(s *scan, text []byte, last bool) (found bool, err error) {
	m, release, err := l.acquireMatcher()
	if m == nil || err != nil {
		return false, err
	}
	defer release()
	s.matcher = m
	s.feed(text, last)
	return len(s.found) > 0, nil
}

// Close wipes the values. Afterwards Redact finds nothing, and Find and an open Redactor fail with ErrClosed rather
// than let text pass: close the redactors first.
func (l *Lease) Close() {
	if l.isEmpty() {
		return
	}
	in := l.inner()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	in.closed = true
	in.matcher.wipe()
	in.memory.release()
}

func (l *Lease) isEmpty() bool { return l == nil || l.inner == nil }

// acquireMatcher returns the matcher, or nil if nothing is redacted. The caller calls release after use.
func (l *Lease) acquireMatcher() (m *matcher, release func(), err error) {
	if l.isEmpty() {
		return nil, nil, nil
	}
	in := l.inner()
	in.mu.RLock()
	if in.closed {
		in.mu.RUnlock()
		return nil, nil, ErrClosed
	}
	if in.matcher == nil {
		in.mu.RUnlock()
		return nil, nil, nil
	}
	return in.matcher, in.mu.RUnlock, nil
}

func wipeSecrets(secrets []secret) {
	for _, s := range secrets {
		clear(s.value)
	}
}
