package signer

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// PayloadType is the type of our envelopes' payloads.
const PayloadType = "application/vnd.in-toto+json"

// MaxEnvelope is the maximum size of an envelope, in bytes: twice the log's limit for a receipt, which the number of
// named artifacts keeps to.
const MaxEnvelope = 2 << 20

// Envelope is a DSSE envelope: a payload and who signed it. It marshals to its JSON.
type Envelope struct {
	PayloadType string
	Payload     []byte // exactly what was signed
	Signatures  []Signature
}

// Signature is a signature of an envelope.
type Signature struct {
	KeyID string // says which key to try, and proves nothing
	Sig   []byte
}

// sign makes an envelope of a payload.
func sign(payload []byte, by ...*Key) (Envelope, error) {
	e := Envelope{PayloadType: PayloadType, Payload: payload}
	for _, k := range by {
		sig, err := k.Sign(nil, dsse.PAE(PayloadType, payload), crypto.Hash(0))
		if err != nil {
			return Envelope{}, fmt.Errorf("sign the receipt: %w", err)
		}
		e.Signatures = append(e.Signatures, Signature{k.ID(), sig})
	}
	return e, nil
}

// MarshalJSON returns the envelope's JSON, on one line and always the same.
func (e Envelope) MarshalJSON() ([]byte, error) {
	out := dsse.Envelope{PayloadType: e.PayloadType, Payload: base64.StdEncoding.EncodeToString(e.Payload), Signatures: []dsse.Signature{}}
	for _, s := range e.Signatures {
		out.Signatures = append(out.Signatures, dsse.Signature{KeyID: s.KeyID, Sig: base64.StdEncoding.EncodeToString(s.Sig)})
	}
	return json.Marshal(out)
}
