package run_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

func TestReceipt(t *testing.T) {
	r, keys := signing(t, nil)
	r.Memory.Set("default", "TOKEN", []byte("hunter2-hunter2"))
	dir := t.TempDir()
	res, err := r.Shell("echo made > made; echo out $TOKEN; exit 3", func(q *run.Request) {
		q.Artifacts, q.Secrets = dir, []string{"TOKEN"}
		q.Inputs = []run.Input{{Name: "in", Content: []byte("x")}}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := predicateOf(t, res.Receipt)
	for key, want := range map[string]any{
		"run": res.ID, "namespace": "default", "language": "shell", "ended": "exit", "exit_code": 3.0, "version": "v1.2.3",
		"policy_sha256": pipeline.Hash([]byte("policy")), "code_sha256": pipeline.Hash([]byte("echo made > made; echo out $TOKEN; exit 3")),
		"stdout_sha256": pipeline.Hash([]byte("out ***REDACTED***\n")), "stdout_bytes": 19.0, "stderr_sha256": pipeline.Hash(nil),
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if strings.Contains(string(res.Receipt), base64.StdEncoding.EncodeToString([]byte("hunter2"))[:8]) ||
		got["secrets"].([]any)[0] != "TOKEN" || got["inputs_sha256"] == nil {
		t.Errorf("got %v", got)
	}
	stored, err := r.Log.Receipt(t.Context(), res.ID)
	if err != nil || !bytes.Equal(stored, res.Receipt) {
		t.Errorf("the log has %q, %v", stored, err)
	}
	if _, text := r.Rows(); !strings.Contains(text, pipeline.Hash(res.Receipt)) {
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
	_, err := r.Shell("echo ran", nil)
	if e := pipelinetest.Stopped(t, err); e.Stage != pipeline.StageAudit || r.Backend.Execs.Load() != 0 {
		t.Errorf("it ran %d times without a key: %+v", r.Backend.Execs.Load(), e)
	}
}

// TestNoReceiptNoResult: nor is a result handed out that could not be signed.
func TestNoReceiptNoResult(t *testing.T) {
	r, keys := signing(t, nil)
	dir := t.TempDir()
	r.Backend.OnStart = func(*pipelinetest.FakeSandbox) {
		hosttest.Until(t, "the run's start is written", func() bool { kinds, _ := r.Rows(); return len(kinds) > 0 })
		os.RemoveAll(keys.Dir())
		os.WriteFile(keys.Dir(), nil, 0o600)
	}
	res, err := r.Shell("echo precious; echo precious > file", func(q *run.Request) { q.Artifacts = dir })
	if e := pipelinetest.Stopped(t, err); e.Stage != pipeline.StageAudit || strings.Contains(res.Stdout, "precious") {
		t.Errorf("got %+v, %+v", res, e)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("artifacts of a withheld result were left: %v", left)
	}
	if kinds, text := r.Rows(); strings.Contains(text, "precious") || kinds[len(kinds)-1] != event.ExecutionFailed {
		t.Errorf("rows %v", kinds)
	}
}
