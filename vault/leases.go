package vault

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
)

// Leases are the leases that concern the same text, such as all leases of a session. The zero value lets all text pass.
type Leases []*Lease

// Has reports whether the leases have a secret of this name.
func (all Leases) Has(name string) bool {
	return slices.ContainsFunc(all, func(l *Lease) bool { return slices.Contains(l.Names(), name) })
}

// Env returns the named secrets as KEY=VALUE, as Lease.Env does.
func (all Leases) Env(names []string) []string {
	var env []string
	for _, l := range all {
		for _, kv := range l.Env() {
			if name, _, _ := strings.Cut(kv, "="); slices.Contains(names, name) {
				env = append(env, kv)
			}
		}
	}
	return env
}

// Redact returns text with Mark in place of each secret.
func (all Leases) Redact(text string) string {
	for _, l := range all {
		text = l.Redact(text)
	}
	return text
}

// RedactCut is Redact for text that was cut off at the end: a possible start of a secret there is removed, too.
func (all Leases) RedactCut(text string) string {
	for _, l := range all {
		var clean strings.Builder
		w := l.Writer(&clean)
		w.Write([]byte(text)) // a failure leaves the text out
		text = clean.String() // without the bytes held back until Close
		w.Close()
	}
	return text
}

// Writer returns a writer that writes text without the secrets to w. Its Close writes the bytes that were held back as
// a possible beginning of a secret, and does not close w.
func (all Leases) Writer(w io.Writer) io.WriteCloser {
	c := writerChain{nopCloser{w}}
	for _, l := range all {
		c = append(c, l.Writer(c[len(c)-1]))
	}
	return c
}

// writerChain is a list of writers, each of which writes to the writer before it.
type writerChain []io.WriteCloser

func (c writerChain) Write(b []byte) (int, error) { return c[len(c)-1].Write(b) }

// Close closes the writers, the last first, so that the bytes that each held back pass through those before it.
func (c writerChain) Close() error {
	var errs []error
	for _, w := range slices.Backward(c) {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// ContainsSecret reports whether the text of r contains any of the secrets, in any encoding that Redact knows. It reads
// r once, and little further than the end of the first match.
func (all Leases) ContainsSecret(r io.Reader) (bool, error) {
	all = slices.DeleteFunc(slices.Clone(all), (*Lease).isEmpty)
	if len(all) == 0 {
		return false, nil
	}
	scans := make([]scan, len(all))
	buf := make([]byte, 64<<10)
	defer clear(buf)
	for {
		n, err := r.Read(buf)
		for i, l := range all {
			if found, closed := l.feed(&scans[i], buf[:n], err == io.EOF); found || closed != nil {
				return found, closed
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return false, nil
		default:
			return false, err
		}
	}
}

// Close closes all leases.
func (all Leases) Close() {
	for _, l := range all {
		l.Close()
	}
}

// LeaseSet is a growing set of leases, such as that of a session. The zero value is empty. Its methods may be called
// concurrently.
type LeaseSet struct {
	mu  sync.Mutex
	all Leases
}

// Add adds a lease.
func (h *LeaseSet) Add(l *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, l)
}

// Leases returns the leases so far.
func (h *LeaseSet) Leases() Leases {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}
