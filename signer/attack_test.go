package signer

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// TestEachBitOfAnEnvelopeCounts: each flipped bit of an envelope is noticed, or does not change its meaning.
func TestEachBitOfAnEnvelopeCounts(t *testing.T) {
	key := fixedKey(t)
	trust := NewTrust(key.PublicKey)
	text := envelope(t, sampleReceipt(), key)
	want, problems := VerifyReceipt(text, trust)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	same := 0
	for i := range text {
		for bit := range 8 {
			text[i] ^= 1 << bit
			got, problems := VerifyReceipt(text, trust)
			if len(problems) == 0 {
				same++
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("bit %d of byte %d changes what the receipt says", bit, i)
				}
			}
			text[i] ^= 1 << bit
		}
	}
	// keyid -> another name: then no key is named, and the known key has made the signature.
	t.Logf("%d of %d flips change nothing", same, 8*len(text))
	if same > 100 {
		t.Errorf("%d flips change nothing", same)
	}
}

// fields is an envelope as another program would write it.
type fields struct {
	PayloadType string           `json:"payloadType"`
	Payload     string           `json:"payload"`
	Signatures  []dsse.Signature `json:"signatures"`
}

func TestForgedReceipts(t *testing.T) {
	key := fixedKey(t)
	_, other := newKeys(t)
	trust := NewTrust(key.PublicKey)
	good, err := sampleReceipt().Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := sampleReceipt().Sign(other)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.StdEncoding.EncodeToString
	sig := func(e Envelope) dsse.Signature {
		return dsse.Signature{KeyID: e.Signatures[0].KeyID, Sig: b64(e.Signatures[0].Sig)}
	}
	base := fields{PayloadType, b64(good.Payload), []dsse.Signature{sig(good)}}
	as := func(payloadType, payload string) string { // signed by us, with any type
		raw, _ := key.Sign(nil, dsse.PAE(payloadType, []byte(payload)), crypto.Hash(0))
		out, _ := json.Marshal(fields{payloadType, b64([]byte(payload)), []dsse.Signature{{KeyID: key.ID(), Sig: b64(raw)}}})
		return string(out)
	}
	with := func(change func(*fields)) string {
		f := base
		f.Signatures = append([]dsse.Signature{}, base.Signatures...)
		change(&f)
		out, _ := json.Marshal(f)
		return string(out)
	}
	unmodified := with(func(*fields) {})
	subject := func(name, digest string) string {
		return fmt.Sprintf(`{"name":%q,"digest":{"sha256":%q}}`, name, digest)
	}
	statement := func(kind, subjects, predicateType, predicate string) string {
		return as(PayloadType, fmt.Sprintf(`{"_type":%q,"subject":[%s],"predicateType":%q,"predicate":%s}`, kind, subjects, predicateType,
			predicate))
	}
	predicate := fmt.Sprintf(`{"code_sha256":%q}`, sum("code"))
	a := subject("a", sum("a"))
	for _, c := range []struct{ name, text, kind, why string }{
		{"as it is", unmodified, "", ""},
		{"by two, of whom one is not known", with(func(f *fields) { f.Signatures = append(f.Signatures, sig(theirs)) }), "", ""},
		{"by two, the unknown one first", with(func(f *fields) { f.Signatures = []dsse.Signature{sig(theirs), sig(good)} }), "", ""},
		{"with no id", with(func(f *fields) { f.Signatures[0].KeyID = "" }), "", ""},
		{"in the alphabet of URLs", with(func(f *fields) { f.Payload = base64.URLEncoding.EncodeToString(good.Payload) }), "", ""},
		{"with fields that nobody knows", strings.Replace(unmodified, "{", `{"more":[1,{"x":null}],`, 1), "", ""},
		{"two files of one content", statement(StatementType, a+","+subject("b", sum("a")), ReceiptType, predicate), "", ""},

		{"empty", "", BadEnvelope, "is empty"},
		{"cut", unmodified[:len(unmodified)/2], BadEnvelope, "was cut"},
		{"no object", "[]", BadEnvelope, "not an object"},
		{"null", "null", BadEnvelope, "not an object"},
		{"something after it", unmodified + "{}", BadEnvelope, "after its end"},
		{"twice", unmodified + "\n" + unmodified, BadEnvelope, "after its end"},
		{"a mark before it", "\ufeff" + unmodified, BadEnvelope, "not JSON"},
		{"no UTF-8", strings.Replace(unmodified, "{", "{\"\xff\":1,", 1), BadEnvelope, "UTF-8"},
		{"deep", strings.Repeat("[", 1_000_000), BadEnvelope, "not JSON"},
		{"deep and closed", `{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}", BadEnvelope, "levels deep"},
		{"huge", `{"x":"` + strings.Repeat("x", MaxEnvelope) + `"}`, BadEnvelope, "larger than 2 MiB"},
		{"two payloads", strings.Replace(unmodified, "{", `{"payload":"`+b64([]byte("{}"))+`",`, 1), BadEnvelope, `two fields "payload"`},
		{"two payloads, one in capitals", strings.Replace(unmodified, "{", `{"PAYLOAD":"`+b64([]byte("{}"))+`",`, 1), BadEnvelope, "two fields"},
		{"two payloads, one escaped", strings.Replace(unmodified, "{", `{"p\u0061yload":"`+b64([]byte("{}"))+`",`, 1), BadEnvelope, "two fields"},
		{"two lists of signatures", strings.Replace(unmodified, "{", `{"signatures":[],`, 1), BadEnvelope, "two fields"},
		{"two, by a letter that folds", strings.Replace(unmodified, "{", "{\"\u017fignatures\":[],", 1), BadEnvelope, "two fields"},
		{"payload in capitals alone", strings.Replace(unmodified, `"payload"`, `"PAYLOAD"`, 1), BadEnvelope, `no text "payload"`},
		{"payload is a number", `{"payloadType":"x","payload":1,"signatures":[]}`, BadEnvelope, `no text "payload"`},
		{"payload is null", `{"payloadType":"x","payload":null,"signatures":[]}`, BadEnvelope, `no text "payload"`},
		{"no base64", with(func(f *fields) { f.Payload = "!" + f.Payload }), BadEnvelope, "not base64"},
		{"base64 in two lines", with(func(f *fields) { f.Payload = f.Payload[:4] + "\n" + f.Payload[4:] }), BadEnvelope, "not base64"},
		{"base64 without its end", with(func(f *fields) { f.Signatures[0].Sig = strings.TrimRight(f.Signatures[0].Sig, "=") }), BadEnvelope,
			"signature 1"},
		{"base64 with bits to spare", with(func(f *fields) { f.Signatures[0].Sig = spareBits(f.Signatures[0].Sig) }), BadEnvelope, "not base64"},
		{"no signatures", with(func(f *fields) { f.Signatures = []dsse.Signature{} }), BadEnvelope, "0 signatures"},
		{"null signatures", with(func(f *fields) { f.Signatures = nil }), BadEnvelope, "no list"},
		{"many signatures", with(func(f *fields) { f.Signatures = make([]dsse.Signature, 50_000) }), BadEnvelope, "50000 signatures"},
		{"empty signature", with(func(f *fields) { f.Signatures[0].Sig = "" }), BadSignature, "not what key"},

		{"another type of payload", with(func(f *fields) { f.PayloadType = "text/plain" }), BadPayloadType, "something else"},
		{"signed as another type", as("text/plain", string(good.Payload)), BadPayloadType, "something else"},
		{"signed as another type, and said to be ours", strings.Replace(as("text/plain", string(good.Payload)), "text/plain", PayloadType, 1),
			BadSignature, "not what key"},
		{"by another", with(func(f *fields) { f.Signatures[0] = sig(theirs) }), BadKey, "not among the keys"},
		{"by another, with our id", with(func(f *fields) { f.Signatures[0].Sig = sig(theirs).Sig }), BadSignature, "not what key"},
		{"by another, with no id", with(func(f *fields) { f.Signatures[0] = dsse.Signature{Sig: sig(theirs).Sig} }), BadKey, "by none of those"},
		{"ours, with another's id", with(func(f *fields) { f.Signatures[0].KeyID = other.ID() }), BadKey, "not among the keys"},
		{"good, and a second one that is not", with(func(f *fields) {
			f.Signatures = append(f.Signatures, dsse.Signature{KeyID: key.ID(), Sig: sig(theirs).Sig})
		}), BadSignature, "signature 2"},
		{"good, and a second one by nobody", with(func(f *fields) { f.Signatures = append(f.Signatures, dsse.Signature{Sig: sig(theirs).Sig}) }),
			BadKey, "signature 2"},
		{"another payload", with(func(f *fields) { f.Payload = b64(append(bytes.Clone(good.Payload), ' ')) }), BadSignature, "not what key"},

		{"no statement", as(PayloadType, "hello"), BadStatement, "not JSON"},
		{"nothing", as(PayloadType, ""), BadStatement, "is empty"},
		{"an older statement", statement("https://in-toto.io/Statement/v0.1", a, ReceiptType, predicate), BadStatement, "its type is"},
		{"about nothing", statement(StatementType, "", ReceiptType, predicate), BadStatement, "no subject"},
		{"about something else", statement(StatementType, a, "https://slsa.dev/provenance/v1", predicate), BadStatement, "wrong predicate"},
		{"the next key", statement(StatementType, a, RotationType, predicate), BadStatement, "wrong predicate"},
		{"no code", statement(StatementType, a, ReceiptType, "{}"), BadStatement, "which code"},
		{"no predicate", statement(StatementType, a, ReceiptType, "null"), BadStatement, "which code"},
		{"a list for a predicate", statement(StatementType, a, ReceiptType, "[]"), BadStatement, "can't be read"},
		{"no hash", statement(StatementType, subject("a", "12"), ReceiptType, predicate), BadStatement, "no SHA-256"},
		{"one name twice", statement(StatementType, a+","+subject("a", sum("b")), ReceiptType, predicate), BadStatement, "two subjects"},
		{"two predicates", as(PayloadType, fmt.Sprintf(`{"_type":%q,"subject":[%s],"predicateType":%q,"predicate":%s,"predicate":{}}`,
			StatementType, a, ReceiptType, predicate)), BadStatement, "two fields"},
		{"another name in base64", statement(StatementType,
			fmt.Sprintf(`{"name":"a","digest":{"sha256":%q},"annotations":{"name_base64":"Yg=="}}`, sum("a")), ReceiptType, predicate), BadStatement,
			"another name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := VerifyReceipt([]byte(c.text), trust)
			switch {
			case c.kind == "" && len(problems) > 0:
				t.Errorf("got %v", problems)
			case c.kind != "" && (len(problems) != 1 || problems[0].Kind != c.kind || !strings.Contains(problems[0].String(), c.why)):
				t.Errorf("got %v, want %s: %s", problems, c.kind, c.why)
			}
		})
	}
	if _, problems := VerifyReceipt([]byte(unmodified), NewTrust()); len(problems) != 1 || problems[0].Kind != BadKey {
		t.Errorf("with no key at all: %v", problems)
	}
}

// spareBits sets a meaningless bit of base64.
func spareBits(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	at := len(strings.TrimRight(s, "=")) - 1
	return s[:at] + string(alphabet[strings.IndexByte(alphabet, s[at])+1]) + s[at+1:]
}

// FuzzParseEnvelope: every parsed envelope is also valid for the specification's own library, with the same
// content.
func FuzzParseEnvelope(f *testing.F) {
	text := envelope(f, sampleReceipt(), fixedKey(f))
	f.Add(text)
	f.Add([]byte(`{"payloadType":"x","payload":"_-8=","signatures":[{"sig":"AA=="}],"more":[[{}]]}`))
	f.Add([]byte(`{"payload":"","payload":""}`))
	trust := NewTrust(fixedKey(f).PublicKey)
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, problems := VerifyReceipt(text, trust); len(problems) == 0 && p.Run != sampleReceipt().Run {
			t.Errorf("a receipt was forged: %q", text)
		}
		e, err := ParseEnvelope(text)
		if err != nil {
			return
		}
		var theirs dsse.Envelope
		if err := json.Unmarshal(text, &theirs); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		payload, err := theirs.DecodeB64Payload()
		if err != nil || !bytes.Equal(payload, e.Payload) || theirs.PayloadType != e.PayloadType || len(theirs.Signatures) != len(e.Signatures) {
			t.Fatalf("%q is %+v to us, and %+v to others", text, e, theirs)
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseEnvelope(again); err != nil || !reflect.DeepEqual(back, e) {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
	})
}
