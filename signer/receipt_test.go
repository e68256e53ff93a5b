package signer

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixedKey is the same key each time, for golden files.
func fixedKey(t testing.TB) *Key {
	t.Helper()
	key, err := newKey(ed25519.NewKeyFromSeed([]byte(strings.Repeat("seed", 8))))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sampleReceipt() Receipt {
	began := time.Date(2026, 1, 31, 15, 4, 5, 123456789, time.FixedZone("", 3600))
	return Receipt{
		Run: "01K9ZB5W7Q3M8Y2D4F6H8J0K2M", Namespace: "default", Language: "python", Name: "report.py",
		CodeSHA256: sum("print(1)"), PolicySHA256: sum("policy"), InputsSHA256: sum("inputs"),
		Backend: "process", Profile: "hardened", Layers: []string{"user", "mount", "net"}, MissingLayers: []string{"cgroup"},
		Secrets: []string{"API_KEY"},
		Egress: []Contact{{Name: "example.com", Port: 443, Allowed: true, Reason: "allowed by example.com <&>", Count: 2, Sent: 300,
			Received: 4000}},
		Packages: []string{"requests 2.32.3"},
		End:      backends.End{Ended: "exit", ExitCode: 3}, Began: began, Finished: began.Add(1500 * time.Millisecond),
		Output:  Output{StdoutSHA256: sum("out"), StdoutBytes: 3, StdoutCut: 7, StderrSHA256: sum(""), StderrCut: 9, ValueSHA256: sum("7")},
		Version: "v1.2.3",
		Artifacts: []Artifact{
			{Name: "a.txt", SHA256: sum("a")}, {Name: "leak", SHA256: sum("leak"), Withheld: "a secret is in it"},
			{Name: "not utf-8 \xff\\xfe", SHA256: sum("b")}, {Name: "sub/\u202egnp.exe\n", SHA256: sum("c")},
		},
	}
}

func envelope(t testing.TB, r Receipt, k *Key) []byte {
	t.Helper()
	e, err := r.Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestReceiptGolden(t *testing.T) {
	text := envelope(t, sampleReceipt(), fixedKey(t))
	e, err := ParseEnvelope(text)
	if err != nil {
		t.Fatal(err)
	}
	var payload bytes.Buffer
	if err := json.Indent(&payload, e.Payload, "", "  "); err != nil {
		t.Fatal(err)
	}
	payload.WriteByte('\n')
	for name, got := range map[string][]byte{"receipt.json": payload.Bytes(), "envelope.json": append(text, '\n')} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReceiptComesBack(t *testing.T) {
	key := fixedKey(t)
	for name, change := range map[string]func(*Receipt){
		"full":          func(*Receipt) {},
		"minimal":       func(r *Receipt) { *r = Receipt{CodeSHA256: sum("x")} },
		"no artifact":   func(r *Receipt) { r.Artifacts = nil },
		"only withheld": func(r *Receipt) { r.Artifacts = r.Artifacts[1:2] },
		"all names": func(r *Receipt) {
			r.Artifacts = nil
			for _, name := range hostile {
				r.Artifacts = append(r.Artifacts, Artifact{Name: name, SHA256: sum(name)})
			}
		},
		"names that look alike": func(r *Receipt) {
			r.Artifacts = []Artifact{{Name: "\xff", SHA256: sum("1")}, {Name: `\xff`, SHA256: sum("2")}, {Name: "\ufffd", SHA256: sum("3")}}
		},
	} {
		r := sampleReceipt()
		change(&r)
		p, problems := VerifyReceipt(envelope(t, r, key), NewTrust(key.PublicKey))
		if len(problems) > 0 || p.Key.ID() != key.ID() || len(p.Strangers) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		want := r
		want.normalize()
		want.Artifacts = nil
		for _, a := range r.Artifacts {
			if a.Withheld != "" {
				want.ArtifactsWithheld = append(want.ArtifactsWithheld, a.Name)
			} else {
				want.Artifacts = append(want.Artifacts, Artifact{Name: a.Name, SHA256: a.SHA256})
			}
		}
		if diff := cmp.Diff(want, p.Receipt); diff != "" {
			t.Errorf("%s (-signed +read):\n%s", name, diff)
		}
	}
}

func TestReceiptThatCannotBe(t *testing.T) {
	key := fixedKey(t)
	for name, change := range map[string]func(*Receipt){
		"no code":       func(r *Receipt) { r.CodeSHA256 = "" },
		"no hash":       func(r *Receipt) { r.Artifacts[0].SHA256 = "abc" },
		"a name twice":  func(r *Receipt) { r.Artifacts[2].Name = r.Artifacts[0].Name },
		"a big hash":    func(r *Receipt) { r.CodeSHA256 = strings.ToUpper(r.CodeSHA256) },
		"no key at all": func(*Receipt) { key = &Key{} },
	} {
		r := sampleReceipt()
		change(&r)
		if _, err := r.Sign(key); err == nil {
			t.Errorf("%s: it was signed", name)
		}
	}
}

// verifier is our key for the library's own verifier.
type verifier struct{ PublicKey }

func (v verifier) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(v.key, data, sig) {
		return errors.New("bad signature")
	}
	return nil
}
func (v verifier) KeyID() (string, error)   { return v.ID(), nil }
func (v verifier) Public() crypto.PublicKey { return v.key }

// The libraries of the specifications accept our receipts.
func TestLibrariesAcceptIt(t *testing.T) {
	key := fixedKey(t)
	for name, artifacts := range map[string][]Artifact{"artifacts": sampleReceipt().Artifacts, "none": nil} {
		r := sampleReceipt()
		r.Artifacts = artifacts
		var e dsse.Envelope
		if err := json.Unmarshal(envelope(t, r, key), &e); err != nil {
			t.Fatal(err)
		}
		check, err := dsse.NewEnvelopeVerifier(verifier{key.PublicKey})
		if err != nil {
			t.Fatal(err)
		}
		accepted, payload, err := check.VerifyAndDecode(t.Context(), &e)
		if err != nil || len(accepted) != 1 || accepted[0].KeyID != key.ID() || e.PayloadType != "application/vnd.in-toto+json" {
			t.Errorf("%s: %v, %v", name, accepted, err)
		}
		var s intoto.Statement
		if err := protojson.Unmarshal(payload, &s); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.GetPredicateType() != ReceiptType || s.GetPredicate().AsMap()["run"] != r.Run {
			t.Errorf("%s: got %v", name, &s)
		}
		for _, sub := range s.GetSubject() {
			if !isHash(sub.GetDigest()["sha256"]) {
				t.Errorf("%s: got %v", name, sub)
			}
		}
	}
}

// Cosign, a program that is not ours, accepts the receipt for each artifact and for nothing else.
func TestCosignAcceptsIt(t *testing.T) {
	cosign := hosttest.Program(t, "cosign")
	_, key := newKeys(t)
	_, other := newKeys(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string][]byte{
		"key.pem": key.PEM(), "other.pem": other.PEM(), "a.txt": []byte("a"), "changed.txt": []byte("changed"),
		"receipt": envelope(t, sampleReceipt(), key),
	} {
		if err := os.WriteFile(at(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		key, kind, file string
		ok              bool
	}{
		{"key.pem", ReceiptType, "a.txt", true},
		{"key.pem", ReceiptType, "changed.txt", false},
		{"other.pem", ReceiptType, "a.txt", false},
		{"key.pem", RotationType, "a.txt", false},
	} {
		cmd := exec.Command(cosign, "verify-blob-attestation", "--key", at(c.key), "--insecure-ignore-tlog=true",
			"--signature", at("receipt"), "--type", c.kind, at(c.file))
		// It would ask the net for the roots of the public log, which this does not need.
		cmd.Env = slices.Concat(os.Environ(), []string{"HOME=" + dir, "HTTPS_PROXY=http://127.0.0.1:9"})
		if out, err := cmd.CombinedOutput(); (err == nil) != c.ok {
			t.Errorf("%v: %v\n%s", c, err, out)
		}
	}
}

func TestSaveReceipt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	first, err := sampleReceipt().Sign(fixedKey(t))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: directoryAt(t, dir)}
	collect(t, sourceOf(file("a.txt", "a")), o)
	if err := saveReceipt(t, dir, first); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(first)
	wantTree(t, dir, map[string]string{"a.txt": "a", "SHA256SUMS": sum("a") + "  a.txt\n", ReceiptName: string(text) + "\n"})
	// A program's file of that name is not a receipt, and the next run does not inherit one.
	m := collect(t, sourceOf(file(ReceiptName, "forged"), file("Receipt.Intoto.JSON", "forged")), o)
	if m.Artifacts[0].Withheld == "" || m.Artifacts[1].Withheld == "" {
		t.Errorf("got %+v", m)
	}
	wantTree(t, dir, map[string]string{"a.txt": "a"})
	if err := os.Mkdir(filepath.Join(dir, ReceiptName), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := saveReceipt(t, dir, first); err == nil || !strings.Contains(err.Error(), ReceiptName) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkSign(b *testing.B) {
	key, r := fixedKey(b), sampleReceipt()
	many := r
	for i := range 1000 {
		many.Artifacts = append(many.Artifacts, Artifact{Name: strings.Repeat("d/", i%20) + sum(string(rune(i))), SHA256: sum("x")})
	}
	for name, r := range map[string]Receipt{"3 artifacts": r, "1000 artifacts": many} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e, err := r.Sign(key)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := json.Marshal(e); err != nil {
					b.Fatal(err)
				}
			}
		})
		text := envelope(b, r, key)
		b.Run("verify "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, problems := VerifyReceipt(text, NewTrust(key.PublicKey)); len(problems) > 0 {
					b.Fatal(problems)
				}
			}
		})
	}
	b.Run("current", func(b *testing.B) {
		keys, _ := newKeys(b)
		for b.Loop() {
			current(b, keys)
		}
	})
}
