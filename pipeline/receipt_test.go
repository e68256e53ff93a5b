package pipeline

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// signing is a rig that signs, and its keys.
func signing(t *testing.T, change func(*Config)) (*rig, *signer.Keys) {
	t.Helper()
	keys, err := signer.OpenKeys(filepath.Join(t.TempDir(), "keys"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, func(c *Config) {
		c.Keys, c.Policy, c.Version = keys, []byte("policy"), "v1.2.3"
		if change != nil {
			change(c)
		}
	}), keys
}

// predicate is what a receipt says, as any reader of DSSE and in-toto finds it.
func predicate(t *testing.T, envelope []byte) map[string]any {
	t.Helper()
	var e struct{ Payload, PayloadType string }
	var s struct{ Predicate map[string]any }
	err := json.Unmarshal(envelope, &e)
	payload, badText := base64.StdEncoding.DecodeString(e.Payload)
	if err := errors.Join(err, badText, json.Unmarshal(payload, &s)); err != nil {
		t.Fatalf("%v in %s", err, envelope)
	}
	return s.Predicate
}

func TestReceipt(t *testing.T) {
	r, keys := signing(t, nil)
	r.memory.Set("default", "TOKEN", []byte("hunter2-hunter2"))
	dir := t.TempDir()
	res, err := r.shell("echo made > made; echo out $TOKEN; exit 3", func(q *Request) {
		q.Artifacts, q.Secrets = dir, []string{"TOKEN"}
		q.Inputs = []Input{{Name: "in", Content: []byte("x")}}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := predicate(t, res.Receipt)
	for key, want := range map[string]any{
		"run": res.ID, "namespace": "default", "language": "shell", "ended": "exit", "exit_code": 3.0, "version": "v1.2.3",
		"policy_sha256": hash([]byte("policy")), "code_sha256": hash([]byte("echo made > made; echo out $TOKEN; exit 3")),
		"stdout_sha256": hash([]byte("out ***REDACTED***\n")), "stdout_bytes": 19.0, "stderr_sha256": hash(nil),
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if strings.Contains(string(res.Receipt), base64.StdEncoding.EncodeToString([]byte("hunter2"))[:8]) || got["secrets"].([]any)[0] != "TOKEN" || got["inputs_sha256"] == nil {
		t.Errorf("got %v", got)
	}
	stored, err := r.log.Receipt(t.Context(), res.ID)
	if err != nil || !bytes.Equal(stored, res.Receipt) {
		t.Errorf("the log has %q, %v", stored, err)
	}
	if _, text := r.rows(); !strings.Contains(text, hash(res.Receipt)) {
		t.Errorf("no row names the receipt:\n%s", text)
	}
	saved, err := os.ReadFile(filepath.Join(dir, signer.ReceiptName))
	if err != nil || !bytes.Equal(bytes.TrimSpace(saved), res.Receipt) {
		t.Errorf("the directory has %q, %v", saved, err)
	}
	trust, err := signer.ReadTrust(keys.Dir())
	if err != nil {
		t.Fatal(err)
	}
	proof, problems := signer.VerifyReceipt(saved, trust)
	if len(problems) > 0 {
		t.Fatalf("it does not verify: %+v", problems)
	}
	if problems, err := proof.VerifyDirectory(signer.Directory{Path: dir}); err != nil || len(problems) > 0 {
		t.Errorf("it does not verify: %+v, %v", problems, err)
	}
	os.WriteFile(filepath.Join(dir, "made"), []byte("forged"), 0o600)
	if problems, err := proof.VerifyDirectory(signer.Directory{Path: dir}); err != nil || len(problems) != 1 {
		t.Errorf("with another file it verifies: %+v, %v", problems, err)
	}
}

// TestNoKeyNoStart: a run whose receipt could not be signed does not begin.
func TestNoKeyNoStart(t *testing.T) {
	r, keys := signing(t, nil)
	if err := os.MkdirAll(filepath.Join(keys.Dir(), "signing.key"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := r.shell("echo ran", nil)
	if e := stopped(t, err); e.Stage != StageAudit || r.backend.execs.Load() != 0 {
		t.Errorf("it ran %d times without a key: %+v", r.backend.execs.Load(), e)
	}
}

// TestNoReceiptNoResult: nor is a result handed out that could not be signed.
func TestNoReceiptNoResult(t *testing.T) {
	r, keys := signing(t, nil)
	dir := t.TempDir()
	r.backend.onStart = func(*fakeSandbox) {
		hosttest.Until(t, "the run's start is written", func() bool { kinds, _ := r.rows(); return len(kinds) > 0 })
		os.RemoveAll(keys.Dir())
		os.WriteFile(keys.Dir(), nil, 0o600)
	}
	res, err := r.shell("echo precious; echo precious > file", func(q *Request) { q.Artifacts = dir })
	if e := stopped(t, err); e.Stage != StageAudit || strings.Contains(res.Stdout, "precious") {
		t.Errorf("got %+v, %+v", res, e)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("artifacts of a withheld result were left: %v", left)
	}
	if kinds, text := r.rows(); strings.Contains(text, "precious") || kinds[len(kinds)-1] != event.ExecutionFailed {
		t.Errorf("rows %v", kinds)
	}
}
