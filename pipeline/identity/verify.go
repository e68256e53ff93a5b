package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"golang.org/x/time/rate"
)

// maxDerivations bounds the concurrent derivations, which bounds their cores and memory: 38 MiB. Failed ones of an id
// are rare, because the secret had a valid MAC.
const (
	maxDerivations = 2
	wrongEvery     = time.Second
	maxWrong       = 5
)

// OpenTokens returns the store of a state directory. It does not read it yet.
func OpenTokens(dir string) *Tokens {
	return &Tokens{dir: dir, derive: argon, slots: make(chan struct{}, maxDerivations), wrong: newLimits(rate.Every(wrongEvery), maxWrong,
		maxTokens)}
}

// proved is a token that was verified by a derivation in this process.
type proved struct {
	sum     [sha256.Size]byte // of the token
	hash    []byte            // hash of its record then
	touched time.Time         // time of the last attempt to write its use
}

// Verify returns the identity of a token. An unknown, wrong or revoked token is errInvalid at the cost of a hash, and
// an expired one errLapsed. The first use of a token in this process costs a derivation, each further one a hash; its
// validity is looked up each time.
func (t *Tokens) Verify(ctx context.Context, token string) (Identity, error) {
	r, err := t.findRecord(token)
	if err != nil {
		return Identity{}, err
	}
	if !t.isProved(r.ID, token) {
		if err := t.prove(ctx, r, token); err != nil {
			return Identity{}, err
		}
		if r, err = t.findRecord(token); err == nil && !t.isProved(r.ID, token) { // its record was changed meanwhile
			err = errInvalid
		}
		if err != nil {
			return Identity{}, err
		}
	}
	t.touch(ctx, r, time.Now())
	return Identity{Name: r.Name, Kind: r.Kind, Source: FromToken, Namespaces: r.Namespaces, Token: r.ID, Expires: r.Expires}, nil
}

// findRecord returns the record of a token whose MAC is valid.
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

// prove derives the hash of a token, and remembers the token if the hash matches the record.
func (t *Tokens) prove(ctx context.Context, r record, token string) error {
	if wait := t.wrong.wait(r.ID); wait > 0 {
		return tooMany("too many failed attempts", wait)
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if t.isProved(r.ID, token) { // another call has done it meanwhile
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

// isProved reports whether this process has verified a token, and its record is unchanged.
func (t *Tokens) isProved(id, token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.proved[id]
	sum := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(p.sum[:], sum[:]) == 1
}

// isValid reports whether a verified identity still has its token.
func (t *Tokens) isValid(i Identity) bool {
	r, known, err := t.record(i.Token)
	return err == nil && known && r.Name == i.Name
}

// Resolution of the time of a token's last use, and the maximum wait to write it.
const (
	usedStep  = time.Hour
	touchWait = 100 * time.Millisecond
)

// touch records the use of a token, once per usedStep. A full disk is no reason to refuse a request: a failed write
// is tried again after usedStep.
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
