package signer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// rotationGrace is the time after its rotation for which a key may still sign, for processes that read the key just
// before.
const rotationGrace = 10 * time.Second

// expiry returns the time from which a key's signatures are invalid, and why; zero is never.
func (p PublicKey) expiry() (end time.Time, why string) {
	if !p.Replaced.IsZero() {
		end, why = p.Replaced.Add(rotationGrace), "was replaced at "+p.Replaced.Format(time.RFC3339)
	}
	if !p.Revoked.IsZero() && (end.IsZero() || p.Revoked.Before(end)) {
		end, why = p.Revoked, p.Revocation()
	}
	return end, why
}

// Revocation describes the revocation of a key; "" if it is not revoked.
func (p PublicKey) Revocation() string {
	switch {
	case p.Revoked.IsZero():
		return ""
	case p.Revoked.Unix() == 0:
		return "is revoked: " + clip(p.Reason)
	}
	return fmt.Sprintf("is revoked from %s on: %s", p.Revoked.Format(time.RFC3339), clip(p.Reason))
}

// ValidUntil returns the time from which the key's signatures are invalid: its revocation, or rotationGrace after its
// replacement. Zero is never.
func (p PublicKey) ValidUntil() time.Time {
	end, _ := p.expiry()
	return end
}

// revocation is the predicate of a key's statement about an earlier key, whose id is the subject of that statement.
type revocation struct {
	Key    string    `json:"key"`  // id
	From   time.Time `json:"from"` // its signatures from then on are invalid
	Reason string    `json:"reason"`
	At     time.Time `json:"at"` // when it was revoked
}

// maxReason is the maximum size of a revocation's reason, in bytes.
const maxReason = 1000

// Revoke revokes an earlier key from a time on, in a statement that the current key signs: later signatures of that key
// are invalid, and earlier ones are valid only if the log has them. The zero time revokes all signatures. The current
// key can't be revoked: replace it first. Revoke returns the file of the statement, which replaces an earlier statement
// about that key. If it returns both a file and an error, recording failed.
func (k *Keys) Revoke(ctx context.Context, id string, from time.Time, reason string) (statement string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if statement, err = k.revokeLocked(ctx, id, from, reason); err != nil {
		err = fmt.Errorf("revoke a key: %w", err)
	}
	return statement, err
}

// ErrCurrent is the error for revoking the current signing key.
var ErrCurrent = errors.New("it is the current signing key: replace it first")

func (k *Keys) revokeLocked(ctx context.Context, id string, from time.Time, reason string) (file string, err error) {
	switch now := time.Now(); {
	case reason == "" || len(reason) > maxReason:
		return "", fmt.Errorf("a reason of at most %d bytes is needed", maxReason)
	case from.After(now):
		return "", fmt.Errorf("%s is in the future", from.Format(time.RFC3339))
	}
	unlock, err := k.lockDirectory(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	key, err := k.loadKey()
	if err != nil {
		return "", err
	}
	trust, err := k.trustChain(key.PublicKey)
	if err != nil {
		return "", err
	}
	old, ok := trust.KeyByID(id)
	switch {
	case id == key.ID():
		return "", ErrCurrent
	case !ok:
		return "", fmt.Errorf("%w: %s is none of those that this one came after", errUnknownKey, id)
	}
	if from = from.UTC().Truncate(time.Second); from.Unix() < 0 {
		from = time.Unix(0, 0).UTC()
	}
	if !old.Revoked.IsZero() && old.Revoked.Before(from) {
		return "", fmt.Errorf("it is already revoked from %s on: a revocation can't be undone", old.Revoked.Format(time.RFC3339))
	}
	text, err := marshalStatement(statement{
		Type: StatementType, Subject: []subject{newSubject("key:"+id, id)}, PredicateType: RevocationType,
		Predicate: revocation{Key: id, From: from, Reason: escapeInvalidUTF8(reason), At: time.Now().UTC().Truncate(time.Second)},
	}, key)
	if err != nil {
		return "", err
	}
	file = k.revocationPath(id)
	statefile.RemoveAbandoned(k.dir, tempKind, statefile.AbandonedAge)
	if err := statefile.ReplaceWithReserved(file, tempKind, text); err != nil {
		return "", err
	}
	_ = statefile.ReserveSpace(k.dir) // fails on a full disk
	if k.record == nil {
		return file, nil
	}
	return file, k.record(ctx, Change{Kind: Revoked, ID: id, From: from, Reason: escapeInvalidUTF8(reason)})
}

func marshalStatement(s statement, by ...*Key) ([]byte, error) {
	e, err := signStatement(s, by...)
	if err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// applyRevocation applies a revocation by a trusted successor of the revoked key.
func (t *Trust) applyRevocation(text []byte) error {
	s, problems := t.openStatement(text)
	if len(problems) > 0 {
		return errors.New(problems[0].String())
	}
	var r revocation
	if err := s.parsePredicate(RevocationType, &r); err != nil {
		return err
	}
	i := t.indexOf(r.Key)
	switch by := s.key; {
	case len(s.subjects) != 1 || s.subjects[0].SHA256 != r.Key || r.From.IsZero() || r.At.IsZero():
		return errors.New("it does not say which key, and from when on")
	case i < 0:
		return fmt.Errorf("it is about key %s, which is not among those that are known (%s)", clip(r.Key), t.shortIDs())
	case t.keys[i].Replaced.IsZero() || r.At.Before(t.keys[i].Replaced) || by.id == r.Key || !by.Replaced.IsZero() &&
		r.At.After(by.ValidUntil()):
		return fmt.Errorf("key %s cannot revoke key %s, which did not come before it", by.id, r.Key)
	}
	if k := &t.keys[i]; k.Revoked.IsZero() || r.From.Before(k.Revoked) {
		k.Revoked, k.Reason = r.From, r.Reason
	}
	return nil
}

// readStatement reads a statement about a key; nil if there is none.
func readStatement(path string) ([]byte, error) {
	text, err := statefile.ReadSmall(path, maxStatement)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}
