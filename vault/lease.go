package vault

import (
	"errors"
	"io"
	"slices"
	"sync"
)

// ErrClosed is what comes from a Redactor whose lease was closed before it.
var ErrClosed = errors.New("the lease of the secrets is closed")

// Lease is the secrets of one run. A nil or empty Lease has none, lets all text pass, and costs
// nothing. Many goroutines may use it at once.
//
// Values that would shred ordinary text are lent but not redacted: see Unredacted. The value of a
// bound secret is redacted like any other, as it may come back in an answer; its placeholder is not,
// since it is worth nothing outside the run.
type Lease struct {
	// inner returns what is lent; nil if that is nothing. It is a function because no printer,
	// logger or dumper looks into one, whether or not it follows pointers.
	inner func() *leased
}

type leased struct {
	mu         sync.RWMutex // held for reading while values are in use
	closed     bool
	secrets    []secret
	matcher    *matcher // nil if there is nothing to look for
	unredacted []string // names of the secrets that are not redacted
	release    []func() // wipe what matcher looks for
}

type secret struct {
	name        string
	value       []byte
	to          Binding
	placeholder string // of a bound one

	pages   *pages // where value is
	release func() // wipes value; nil if nobody else knows of it
}

// newLease takes over the values.
func newLease(secrets []secret) *Lease {
	in := &leased{secrets: secrets}
	var parts, keys [][]byte
	keep := func(to *[][]byte, s secret, part []byte) {
		stored, release := s.pages.keep(part)
		clear(part)
		*to, in.release = append(*to, stored), append(in.release, release)
	}
	rest := make([][][]byte, len(secrets))
	for i, s := range secrets {
		if s.to.bound() {
			secrets[i].placeholder = newPlaceholder()
		}
		rest[i] = partsOf(s.value)
		if len(rest[i]) == 0 {
			in.unredacted = append(in.unredacted, s.name)
			continue
		}
		for _, key := range joined(s.value) {
			keep(&keys, s, key)
		}
	}
	// The values come before their lines: what is beyond a limit is left out.
	for more := true; more; {
		more = false
		for i, s := range secrets {
			if len(rest[i]) == 0 {
				continue
			}
			if len(parts) < maxValues {
				keep(&parts, s, rest[i][0])
			} else {
				clear(rest[i][0])
			}
			rest[i], more = rest[i][1:], true
		}
	}
	in.matcher = newMatcher(parts, keys)
	return &Lease{func() *leased { return in }}
}

// Names returns the names of the secrets, in the order in which they were asked for.
func (l *Lease) Names() []string {
	if l.empty() {
		return nil
	}
	var names []string
	for _, s := range l.inner().secrets {
		names = append(names, s.name)
	}
	return names
}

// Unredacted returns the names of the secrets that are lent but not taken out of text, because
// their values stand in ordinary text, too: shorter than 6 bytes, fewer than 3 different bytes, or
// a common word such as "password". White space at the ends does not count.
func (l *Lease) Unredacted() []string {
	if l.empty() {
		return nil
	}
	return slices.Clone(l.inner().unredacted)
}

// Env returns the secrets as KEY=VALUE, for the environment of the program; a bound one has its
// placeholder in the place of the value. These strings are copies, which Close can't wipe: hand them
// on at once, and keep them nowhere.
func (l *Lease) Env() []string {
	if l.empty() {
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
		if !s.to.bound() {
			value = string(s.value)
		}
		env = append(env, s.name+"="+value)
	}
	return env
}

// Redact returns s with Mark in the place of each secret. After Close it returns s as it is.
func (l *Lease) Redact(s string) string {
	m, release, err := l.use()
	if m == nil || err != nil {
		return s
	}
	defer release()
	return redactText(m, s)
}

// Find reports whether a secret is in what r gives, in any encoding that Redact knows. It reads
// little further than the end of the first.
func (l *Lease) Find(r io.Reader) (bool, error) {
	if l.empty() {
		return false, nil
	}
	var s scan
	buf := make([]byte, 64<<10)
	defer clear(buf)
	for {
		n, err := r.Read(buf)
		switch found, closed := l.feed(&s, buf[:n]); {
		case found || closed != nil:
			return found, closed
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		}
	}
}

// feed holds the lease only as long as it takes to look through the text.
func (l *Lease) feed(s *scan, text []byte) (found bool, err error) {
	m, release, err := l.use()
	if m == nil || err != nil {
		return false, err
	}
	defer release()
	s.matcher = m
	s.feed(text)
	return len(s.found) > 0, nil
}

// Close wipes the values. Afterwards Redact finds nothing, and Find and a Redactor that is still
// open fail with ErrClosed rather than let text pass: close the redactors first.
func (l *Lease) Close() {
	if l.empty() {
		return
	}
	in := l.inner()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	in.closed = true
	wipe(in.secrets)
	in.matcher.wipe()
	for _, release := range in.release {
		release()
	}
}

func (l *Lease) empty() bool { return l == nil || l.inner == nil }

// use returns what looks for the secrets, to be released after use; nil if there are none.
func (l *Lease) use() (m *matcher, release func(), err error) {
	if l.empty() {
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

func wipe(secrets []secret) {
	for _, s := range secrets {
		if s.release != nil {
			s.release()
			continue
		}
		clear(s.value)
	}
}
