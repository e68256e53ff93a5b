package e2b

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/mcp/e2b/envd"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// pass is one identity's access to one sandbox, by tokens that no other identity has. Requests with them act as that
// identity, and are refused once the credentials that it was issued for have expired.
type pass struct {
	identity.Identity
	access  string // X-Access-Token, for the daemon and the interpreter
	traffic string // E2B-Traffic-Access-Token, for the interpreter and ports
}

// maxPasses bounds the passes of one identity to one sandbox: each JWT of a subject needs another one.
const maxPasses = 8

// passFor returns the pass of an identity to a sandbox, always the same one for the same credentials.
func (s *Server) passFor(b *Sandbox, i identity.Identity) *pass {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, last := 0, -1
	now := time.Now()
	b.passes = slices.DeleteFunc(b.passes, func(p *pass) bool { return !p.Expires.IsZero() && !now.Before(p.Expires) })
	for n, p := range b.passes {
		if p.Owner() != i.Owner() {
			continue
		}
		if p.Expires.Equal(i.Expires) {
			return p
		}
		if own++; last < 0 {
			last = n
		}
	}
	if own >= maxPasses {
		b.passes = slices.Delete(b.passes, last, last+1)
	}
	p := &pass{Identity: i, access: s.deriveToken("access", b.ID, i), traffic: s.deriveToken("traffic", b.ID, i)}
	b.passes = append(b.passes, p)
	return p
}

// deriveToken returns the token of an identity for a use of a sandbox. It is unpredictable without the server's key,
// which ends with the server, as its sandboxes do.
func (s *Server) deriveToken(use, sandbox string, i identity.Identity) string {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "%q %q %q %d", use, sandbox, i.Owner(), i.Expires.UnixNano())
	return hex.EncodeToString(mac.Sum(nil))
}

// passOf returns the pass whose token or, at the daemon's /files, signature a request to a port of the sandbox has,
// or nil. The handler checks which of them it needs.
func (b *Sandbox) passOf(r *http.Request, port int) *pass {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found *pass
	access, traffic := r.Header.Get(headerAccess), r.Header.Get(headerTraffic)
	for _, p := range b.passes {
		if envd.Same(access, p.access) {
			return p
		}
		if envd.Same(traffic, p.traffic) {
			found = p
		}
	}
	if found != nil || port != daemonPort || r.URL.Path != filesPath || len(r.URL.RawQuery) > maxQuery {
		return found
	}
	return b.signer(envd.NewSignature(r.URL.Query()))
}

// signer returns the pass whose token signed a URL, or nil. The caller holds the lock.
func (b *Sandbox) signer(q envd.Signature) *pass {
	i := slices.IndexFunc(b.passes, func(p *pass) bool { return q.By(p.access) })
	if i < 0 {
		return nil
	}
	return b.passes[i]
}

// findSigned returns the sandbox of a signed URL that no header and no host names, and the pass that signed it, or
// nil. A signature is a hash of a token and names no sandbox, so it is compared with all of them; the path is hashed
// once for that. Wrong signatures count as failed attempts of an address.
func (s *Server) findSigned(r *http.Request, query url.Values) (*Sandbox, *pass, error) {
	if query.Get("signature") == "" {
		return nil, nil, nil
	}
	if err := s.cfg.Identities.CheckBlocked(r); err != nil {
		return nil, nil, err
	}
	if len(r.URL.RawQuery) <= maxQuery {
		signed := envd.NewSignature(query)
		for _, b := range s.sandboxes() {
			b.mu.Lock()
			p := b.signer(signed)
			b.mu.Unlock()
			if p != nil {
				return b, p, nil
			}
		}
	}
	s.cfg.Identities.Fail(r)
	return nil, nil, nil
}

// maxQuery bounds the query of a signed URL, in bytes.
const maxQuery = 16 << 10

// lookup returns the sandbox with an id, or nil. Unauthenticated requests use it, so it never waits for a sandbox.
func (s *Server) lookup(id string) *Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[strings.ToLower(id)]
}
