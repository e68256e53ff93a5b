package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"golang.org/x/time/rate"
)

// The most derivations at once, which bounds what they cost of the cores and of memory: 38 MiB. Those of one id that
// come to nothing are rare, as the secret had the right MAC.
const (
	maxDerivations = 2
	wrongEvery     = time.Second
	maxWrong       = 5
)

// OpenTokens returns the store of a state directory. It does nothing yet.
func OpenTokens(dir string) *Tokens {
	return &Tokens{dir: dir, derive: argon, slots: make(chan struct{}, maxDerivations), wrong: newLimits(rate.Every(wrongEvery), maxWrong, maxTokens)}
}

// proved is a token whose hash was derived once in this process.
type proved struct {
	sum     [sha256.Size]byte // of the token
	hash    []byte            // of its record then
	touched time.Time         // when its last use was written, or tried to
}

// Verify returns the identity of a token. One that is not known, wrong or revoked is errInvalid at the cost of a hash,
// and one that has expired is errLapsed. The first use of a token in this process costs a derivation, each further one
// a hash; whether it still holds is looked up each time.
func (t *Tokens) Verify(ctx context.Context, token string) (Identity, error) {
	r, err := t.findRecord(token)
	if err != nil {
		return Identity{}, err
	}
	if !t.isProved(r.ID, token) {
		if err := t.prove(ctx, r, token); err != nil {
			return Identity{}, err
		}
		if r, err = t.findRecord(token); err == nil && !t.isProved(r.ID, token) { // its record has changed meanwhile
			err = errInvalid
		}
		if err != nil {
			return Identity{}, err
		}
	}
	t.touch(ctx, r, time.Now())
	return Identity{Name: r.Name, Kind: r.Kind, Source: FromToken, Namespaces: r.Namespaces, Token: r.ID, Expires: r.Expires}, nil
}

// findRecord returns the record of a token that was made by us, as far as its MAC says.
func (t *Tokens) findRecord(token string) (record, error) {
	id, ok := parseToken(token)
	if !ok {
		return record{}, errInvalid
	}
	r, known, err := t.record(id)
	switch {
	case err != nil:
		return record{}, err
	case !known || !isGenuine(token, r.Key):
		return record{}, errInvalid
	case r.Expired(time.Now()):
		return record{}, errLapsed
	}
	return r, nil
}

// prove derives the hash of a token, and remembers it if it is the one of the record.
func (t *Tokens) prove(ctx context.Context, r record, token string) error {
	if wait := t.wrong.wait(r.ID); wait > 0 {
		return tooMany("too many tries failed", wait)
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if t.isProved(r.ID, token) { // by another call meanwhile
		return nil
	}
	if subtle.ConstantTimeCompare(t.derive(token, r.Salt), r.Hash) != 1 {
		t.wrong.consume(r.ID)
		return errInvalid
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.proved == nil {
		t.proved = map[string]proved{}
	}
	t.proved[r.ID] = proved{sum: sha256.Sum256([]byte(token)), hash: r.Hash}
	return nil
}

// isProved reports whether a token was proved before in this process, and its record is still that one.
func (t *Tokens) isProved(id, token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.proved[id]
	sum := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(p.sum[:], sum[:]) == 1
}

// isValid reports whether an identity that was verified still is one.
func (t *Tokens) isValid(i Identity) bool {
	r, known, err := t.record(i.Token)
	return err == nil && known && r.Name == i.Name
}

// The steps of the time of a token's last use, and how long a request waits for the store to write it.
const (
	usedStep  = time.Hour
	touchWait = 100 * time.Millisecond
)

// touch writes that a token is used, once in a step. A disk that is full is no reason to refuse anybody: what can't be
// written is tried again after a step.
func (t *Tokens) touch(ctx context.Context, r record, at time.Time) {
	if at.Sub(r.Used) < usedStep || !t.touching.TryLock() {
		return
	}
	defer t.touching.Unlock()
	t.mu.Lock()
	v, ok := t.proved[r.ID]
	due := ok && at.Sub(v.touched) >= usedStep
	if due {
		v.touched = at
		t.proved[r.ID] = v
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
