package signer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// PayloadType is the type of our envelopes' payloads.
const PayloadType = "application/vnd.in-toto+json"

// MaxEnvelope is the maximum size of an envelope, in bytes: twice the log's limit for a receipt, which bounds the
// number of named artifacts.
const MaxEnvelope = 2 << 20

// Envelope is a DSSE envelope: a payload with its signatures. Its JSON is one line, and deterministic.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"` // the signed bytes
	Signatures  []Signature `json:"signatures"`
}

// Signature is a signature of an envelope.
type Signature struct {
	KeyID string `json:"keyid"` // hint for the key; proves nothing
	Sig   []byte `json:"sig"`
}

// maxSignatures is the maximum number of signatures in an envelope: each costs a check, or a check with each known key.
const maxSignatures = 16

// ParseEnvelope reads the JSON of a DSSE envelope. It checks no signature. It refuses ambiguous JSON, and ignores
// unknown fields.
func ParseEnvelope(text []byte) (Envelope, error) {
	if len(text) > MaxEnvelope {
		return Envelope{}, fmt.Errorf("it is larger than %d MiB", MaxEnvelope>>20)
	}
	if err := checkJSON(text); err != nil {
		return Envelope{}, err
	}
	// A map, since for a struct encoding/json also accepts a field "PAYLOAD".
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		return Envelope{}, errors.New("it is JSON, but not an object")
	}
	var e Envelope
	var err error
	if e.PayloadType, err = stringField(fields, "payloadType"); err != nil {
		return Envelope{}, err
	}
	if e.Payload, err = base64Field(fields, "payload"); err != nil {
		return Envelope{}, err
	}
	e.Signatures, err = parseSignatures(fields["signatures"])
	return e, err
}

func parseSignatures(text json.RawMessage) ([]Signature, error) {
	var list []map[string]json.RawMessage
	if text == nil || json.Unmarshal(text, &list) != nil || list == nil {
		return nil, errors.New("it has no list of signatures")
	}
	if len(list) == 0 || len(list) > maxSignatures {
		return nil, fmt.Errorf("it has %d signatures, and should have 1 to %d", len(list), maxSignatures)
	}
	var all []Signature
	for i, fields := range list {
		var s Signature
		var err error
		if fields["keyid"] != nil {
			if s.KeyID, err = stringField(fields, "keyid"); err != nil {
				return nil, fmt.Errorf("signature %d: %w", i+1, err)
			}
		}
		if s.Sig, err = base64Field(fields, "sig"); err != nil {
			return nil, fmt.Errorf("signature %d: %w", i+1, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// stringField returns a required string field.
func stringField(fields map[string]json.RawMessage, name string) (string, error) {
	var s *string
	if fields[name] == nil || json.Unmarshal(fields[name], &s) != nil || s == nil {
		return "", fmt.Errorf("it has no text %q", name)
	}
	return *s, nil
}

// base64Field returns a required base64 field, in the standard or the URL alphabet, as DSSE allows both, and without
// line ends or leftover bits, so that the encoding is unique in each alphabet.
func base64Field(fields map[string]json.RawMessage, name string) ([]byte, error) {
	s, err := stringField(fields, name)
	if err != nil {
		return nil, err
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if b, err := encoding.Strict().DecodeString(s); err == nil && !strings.ContainsAny(s, "\r\n") {
			return b, nil
		}
	}
	return nil, fmt.Errorf("its field %q is not base64", name)
}
