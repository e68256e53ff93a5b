package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"time"
)

// The most derivations at once, which bounds what wrong tokens cost of the cores and of memory, and the most that wait.
const (
	maxDerivations = 2
	maxWaiting     = 64
)

// OpenTokens returns the store of a state directory. It does nothing yet.
func OpenTokens(dir string) *Tokens {
	t := &Tokens{dir: dir, derive: argon, slots: make(chan struct{}, maxDerivations), queue: make(chan struct{}, maxWaiting), decoy: make([]byte, saltSize)}
	rand.Read(t.decoy)
	return t
}

// verified is a token whose hash was derived once in this process.
type verified struct {
	sum     [sha256.Size]byte // of the token
	hash    []byte            // of its record then
	touched time.Time         // when its last use was written, or tried to
}

// errBusy is the error where too many derivations wait.
var errBusy = errors.New("too many tokens are being checked")

// Verify returns the identity of a token. A token that is not known, wrong, expired or revoked is errInvalid, at the cost of one
// derivation each. One that was verified before costs a hash, and whether it still holds is looked up each time.
func (t *Tokens) Verify(ctx context.Context, token string) (Identity, error) {
	id, ok := parseToken(token)
	if !ok {
		return Identity{}, errInvalid
	}
	if i, err := t.known(ctx, id, token); !errors.Is(err, errUnverified) {
		return i, err
	}
	select {
	case t.queue <- struct{}{}:
		defer func() { <-t.queue }()
	default:
		return Identity{}, errBusy
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return Identity{}, context.Cause(ctx)
	}
	if i, err := t.known(ctx, id, token); !errors.Is(err, errUnverified) { // another call has verified it meanwhile
		return i, err
	}
	r, known, err := t.record(id)
	if err != nil {
		return Identity{}, err
	}
	salt, want := t.decoy, make([]byte, hashSize)
	if known {
		salt, want = r.Salt, r.Hash
	}
	if same := subtle.ConstantTimeCompare(t.derive(token, salt), want) == 1; !same || !known {
		return Identity{}, errInvalid
	}
	t.mu.Lock()
	if t.verified == nil {
		t.verified = map[string]verified{}
	}
	t.verified[id] = verified{sum: sha256.Sum256([]byte(token)), hash: r.Hash}
	t.mu.Unlock()
	if i, err := t.known(ctx, id, token); !errors.Is(err, errUnverified) {
		return i, err
	}
	return Identity{}, errInvalid // it was revoked meanwhile
}

// Verified reports whether a token was verified before in this process, so that Verify costs little.
func (t *Tokens) Verified(token string) bool {
	id, ok := parseToken(token)
	if !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.verified[id]
	sum := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(v.sum[:], sum[:]) == 1
}

// holds reports whether an identity that was verified still is one.
func (t *Tokens) holds(i Identity) bool {
	r, known, err := t.record(i.Token)
	return err == nil && known && r.Name == i.Name
}

// errUnverified is the error of known for a token that has yet to be verified.
var errUnverified = errors.New("not verified yet")

// known returns the identity of a token that was verified before, and holds.
func (t *Tokens) known(ctx context.Context, id, token string) (Identity, error) {
	r, known, err := t.record(id)
	if err != nil {
		return Identity{}, err
	}
	if !known || !t.Verified(token) {
		return Identity{}, errUnverified
	}
	at := time.Now()
	if r.Expired(at) {
		return Identity{}, errInvalid
	}
	t.touch(ctx, r, at)
	return Identity{Name: r.Name, Kind: r.Kind, Source: FromToken, Namespaces: r.Namespaces, Token: r.ID, Expires: r.Expires}, nil
}

// The steps of the time of a token's last use, and how long a request waits for the store to write it.
const (
	usedStep  = time.Hour
	touchWait = 100 * time.Millisecond
)

// touch writes that a token is used, once in a step. A disk that is full is no reason to refuse anybody: what can't be written is tried
// again after a step.
func (t *Tokens) touch(ctx context.Context, r record, at time.Time) {
	if at.Sub(r.Used) < usedStep || !t.touching.TryLock() {
		return
	}
	defer t.touching.Unlock()
	t.mu.Lock()
	v, ok := t.verified[r.ID]
	due := ok && at.Sub(v.touched) >= usedStep
	if due {
		v.touched = at
		t.verified[r.ID] = v
	}
	t.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), touchWait)
	defer cancel()
	_ = t.change(ctx, func(all *content) error {
		for i := range all.Tokens {
			if all.Tokens[i].ID == r.ID {
				all.Tokens[i].Used = at.UTC().Truncate(usedStep)
				return nil
			}
		}
		return ErrUnknown
	})
}
