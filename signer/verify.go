package signer

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// verifiedStatement is a statement signed by a trusted key.
type verifiedStatement struct {
	key       PublicKey
	strangers []string // ids of further signing keys, which are unknown
	kind      string   // predicateType
	subjects  []Sum
	predicate json.RawMessage
}

// openStatement returns the statement in an envelope, or its problems. It checks the signer first, since faults of an
// unknown signer's statement are not worth reporting.
func (t *Trust) openStatement(text []byte) (verifiedStatement, []Problem) {
	e, err := ParseEnvelope(text)
	if err != nil {
		return verifiedStatement{}, newProblems(BadEnvelope, "it can't be read: %v", err)
	}
	if e.PayloadType != PayloadType {
		return verifiedStatement{}, []Problem{{Kind: BadPayloadType, Why: "it holds something else", Want: PayloadType, Got: clip(e.PayloadType)}}
	}
	key, strangers, problems := t.trustedSigner(e)
	if len(problems) > 0 {
		return verifiedStatement{}, problems
	}
	s, err := parseStatement(e.Payload)
	if err != nil {
		return verifiedStatement{}, newProblems(BadStatement, "%v", err)
	}
	s.key, s.strangers = key, strangers
	return s, nil
}

// trustedSigner returns the trusted key that signed e. Unknown keys may have signed e, too, but an invalid signature of
// a known key is a problem.
func (t *Trust) trustedSigner(e Envelope) (by PublicKey, strangers []string, problems []Problem) {
	message := dsse.PAE(e.PayloadType, e.Payload)
	found := false
	for i, s := range e.Signatures {
		key, known := t.signingKey(message, s)
		switch {
		case !known && s.KeyID != "":
			strangers = append(strangers, s.KeyID)
		case !known:
			return by, nil, newProblems(BadKey, "signature %d does not say by which key it is, and it is by none of those that are known (%s)", i+1,
				t.shortIDs())
		case !ed25519.Verify(key.key, message, s.Sig):
			return by, nil, newProblems(BadSignature, "it is not what key %s signed: the envelope was changed, or signature %d is by another key",
				key.id, i+1)
		case !found:
			by, found = key, true
		}
	}
	if len(t.keys) == 0 {
		return by, nil, newProblems(BadKey, "no key is known to check the signature with")
	}
	if !found {
		return by, nil, newProblems(BadKey, "it is signed by %s, which is not among the keys that are known (%s)",
			clip(strings.Join(strangers, ", ")), t.shortIDs())
	}
	return by, strangers, nil
}

// signingKey returns the key that a signature names or, without a name, the key that verifies it.
func (t *Trust) signingKey(message []byte, s Signature) (PublicKey, bool) {
	if s.KeyID != "" {
		return t.KeyByID(s.KeyID)
	}
	for _, k := range t.keys {
		if ed25519.Verify(k.key, message, s.Sig) {
			return k, true
		}
	}
	return PublicKey{}, false
}

func parseStatement(text []byte) (verifiedStatement, error) {
	if err := checkJSON(text); err != nil {
		return verifiedStatement{}, err
	}
	var read struct {
		Type          string          `json:"_type"`
		Subject       []subject       `json:"subject"`
		PredicateType string          `json:"predicateType"`
		Predicate     json.RawMessage `json:"predicate"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return verifiedStatement{}, errors.New("it is JSON, but not an in-toto statement")
	}
	if read.Type != StatementType {
		return verifiedStatement{}, fmt.Errorf("its type is %q, not %s", clip(read.Type), StatementType)
	}
	if len(read.Subject) == 0 {
		return verifiedStatement{}, errors.New("it has no subject")
	}
	s := verifiedStatement{kind: read.PredicateType, predicate: read.Predicate}
	seen := map[string]bool{}
	for _, sub := range read.Subject {
		name, err := sub.exactName()
		switch {
		case err != nil:
			return verifiedStatement{}, err
		case !isHash(sub.Digest.SHA256):
			return verifiedStatement{}, fmt.Errorf("its subject %q has no SHA-256", clip(name))
		case seen[name]:
			return verifiedStatement{}, fmt.Errorf("it has two subjects %q", clip(name))
		}
		seen[name] = true
		s.subjects = append(s.subjects, Sum{Name: name, SHA256: sub.Digest.SHA256})
	}
	return s, nil
}

// exactName returns the exact name of a subject, in any bytes.
func (s subject) exactName() (string, error) {
	if s.Annotations == nil || s.Annotations.NameBase64 == "" {
		return s.Name, nil
	}
	name, err := base64.StdEncoding.Strict().DecodeString(s.Annotations.NameBase64)
	if err != nil || escapeInvalidUTF8(string(name)) != s.Name {
		return "", fmt.Errorf("its subject %q has another name in base64", clip(s.Name))
	}
	return string(name), nil
}

// parsePredicate parses the predicate of a statement, which must be of this kind.
func (s verifiedStatement) parsePredicate(kind string, into any) error {
	if s.kind != kind {
		return fmt.Errorf("wrong predicate %q, want %s", clip(s.kind), kind)
	}
	if err := json.Unmarshal(s.predicate, into); err != nil {
		return errors.New("its predicate can't be read")
	}
	return nil
}

// clip shortens untrusted text to fit a line.
func clip(s string) string { return safetext.Clip(s, 200) }
