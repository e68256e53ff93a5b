package page

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Lifetime and bounds of browser sessions.
const (
	inviteTime = 2 * time.Minute
	idleTime   = time.Hour // without a request; an open page sends some
	fullTime   = 12 * time.Hour
	maxVisits  = 256
	maxOwn     = 32 // sessions of one identity: a further one ends the least recently used
	maxInvites = 16 // unused codes of one identity
	maxCodes   = 4096
	maxStreams = 64 // concurrent streams of one identity: each window has one or two
)

const cookieName = "sandboxmcp"

// visitors holds the browser sessions and the unused codes.
type visitors struct {
	now func() time.Time

	mu      sync.Mutex
	invited map[[32]byte]invited
	inside  map[[32]byte]*visitor // by the hash of the cookie
	closed  bool
}

type invited struct {
	identity identity.Identity
	until    time.Time
}

// visitor is a browser's session.
type visitor struct {
	key      [32]byte
	room     string // secret path of the session
	token    string // required in forms, against requests that foreign pages make the browser send
	identity identity.Identity
	ends     time.Time
	seen     time.Time // guarded by visitors.mu
	ctx      context.Context
	end      context.CancelFunc
}

// secret returns 160 random bits, as lower-case letters and digits.
func secret() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b))
}

// isRoom reports whether a text has the form of secret.
func isRoom(s string) bool {
	return len(s) == 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// invite returns a code for an identity, or an error if there are too many.
func (s *visitors) invite(i identity.Identity) (string, error) {
	code := secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy()
	own := 0
	for _, other := range s.invited {
		if other.identity.String() == i.String() {
			own++
		}
	}
	switch {
	case own >= maxInvites:
		return "", &control.Failure{Status: http.StatusTooManyRequests,
			Text: fmt.Sprintf("%d links to the page are unused, the maximum per person", own), Hint: inviteHint}
	case s.closed || len(s.invited) >= maxCodes:
		return "", &control.Failure{Status: http.StatusServiceUnavailable, Text: "too many links to the page wait to be opened", Hint: inviteHint}
	}
	if s.invited == nil {
		s.invited = map[[32]byte]invited{}
	}
	s.invited[sha256.Sum256([]byte(code))] = invited{i, s.now().Add(inviteTime)}
	return code, nil
}

const inviteHint = "open one of them, or try again in two minutes"

// redeemCode returns the identity of a code, once.
func (s *visitors) redeemCode(code string) (identity.Identity, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy()
	key := sha256.Sum256([]byte(strings.TrimSpace(code)))
	i, ok := s.invited[key]
	delete(s.invited, key)
	return i.identity, ok
}

// admit begins a session and returns its cookie; "" if there are too many.
func (s *visitors) admit(i identity.Identity, room string) string {
	cookie := secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy()
	if oldest, n := s.countOf(i); n >= maxOwn {
		s.remove(oldest)
	}
	if s.closed || len(s.inside) >= maxVisits {
		return ""
	}
	v := &visitor{key: sha256.Sum256([]byte(cookie)), room: room, token: secret(), identity: i, seen: s.now(), ends: s.now().Add(fullTime)}
	if !i.Expires.IsZero() && i.Expires.Before(v.ends) {
		v.ends = i.Expires
	}
	v.ctx, v.end = context.WithDeadline(context.Background(), time.Now().Add(v.ends.Sub(s.now())))
	if s.inside == nil {
		s.inside = map[[32]byte]*visitor{}
	}
	s.inside[v.key] = v
	return cookie
}

// countOf returns the least recently used session of an identity, and the number of its sessions. The caller holds
// the lock.
func (s *visitors) countOf(i identity.Identity) (oldest *visitor, n int) {
	for _, v := range s.inside {
		if v.identity.String() != i.String() {
			continue
		}
		if n++; oldest == nil || v.seen.Before(oldest.seen) {
			oldest = v
		}
	}
	return oldest, n
}

// visitorOf returns the session of a request below a room, or nil.
func (s *visitors) visitorOf(r *http.Request, room string) *visitor {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy()
	for _, c := range r.CookiesNamed(cookieName) {
		v := s.inside[sha256.Sum256([]byte(c.Value))]
		if v != nil && subtle.ConstantTimeCompare([]byte(v.room), []byte(room)) == 1 {
			v.seen = s.now()
			return v
		}
	}
	return nil
}

// touch records that a page is open.
func (s *visitors) touch(v *visitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.seen = s.now()
}

// tidy drops expired sessions and codes. The caller holds the lock.
func (s *visitors) tidy() {
	now := s.now()
	for key, i := range s.invited {
		if !now.Before(i.until) {
			delete(s.invited, key)
		}
	}
	for _, v := range s.inside {
		if !now.Before(v.ends) || now.Sub(v.seen) >= idleTime {
			s.remove(v)
		}
	}
}

func (s *visitors) drop(v *visitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(v)
}

// remove ends a session. The caller holds the lock.
func (s *visitors) remove(v *visitor) {
	v.end()
	delete(s.inside, v.key)
}

func (s *visitors) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.invited = true, nil
	for _, v := range s.inside {
		s.remove(v)
	}
}

// rightToken reports whether a form, or a script's request, has the token of its session.
func (v *visitor) rightToken(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(v.token), []byte(r.PostForm.Get("token"))) == 1
}
