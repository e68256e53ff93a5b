package pipelinetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// TextOf is what a cell's result says.
func TextOf(res pipeline.Outcome) string {
	text := fmt.Sprintf("%s %d %q %q", res.Ended, res.ExitCode, res.Stdout, res.Stderr)
	if res.Value != nil {
		text += " value " + res.Value["text/plain"]
	}
	for _, d := range res.Displays {
		text += " display " + d["text/plain"]
	}
	if e := res.Error; e != nil {
		text += fmt.Sprintf(" %s: %q %q", e.Type, e.Message, e.Traceback)
	}
	if res.StateLost != "" {
		text += " lost: " + res.StateLost
	}
	return text
}

// Begun starts an effect, and returns its run once that is under way with a program. wait returns its result.
func Begun(t *testing.T, p *pipeline.Pipeline, q run.Request) (r pipeline.Running, wait func() pipeline.Outcome) {
	t.Helper()
	results := make(chan pipeline.Outcome, 1)
	go func() {
		_, res, _ := pipeline.Do(context.Background(), p, q) // a test that ends interrupts it
		results <- res
	}()
	hosttest.Until(t, "it runs", func() bool {
		list := p.Running("")
		if len(list) == 1 && list[0].Usage != nil && list[0].Usage.Processes > 0 { // it may have begun a moment before it has processes
			r = list[0]
		}
		return r.Run != ""
	})
	return r, func() pipeline.Outcome { return <-results }
}

// Rows returns the rows of a kind as text.
func Rows(t testing.TB, log *FlakyLog, kind string) (all []string) {
	t.Helper()
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Kind == kind {
			all = append(all, fmt.Sprintf("%s %s", row.Run, row.Data))
		}
	}
	return all
}

// Signing is a rig that signs, and its keys.
func Signing(t *testing.T, change func(*pipeline.Config)) (*Rig, *signer.Keys) {
	t.Helper()
	keys, err := signer.OpenKeys(filepath.Join(t.TempDir(), "keys"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewRig(t, func(c *pipeline.Config) {
		c.Keys, c.Policy, c.Version = keys, []byte("policy"), "v1.2.3"
		if change != nil {
			change(c)
		}
	}), keys
}

// Predicate is what a receipt says, as any reader of DSSE and in-toto finds it.
func Predicate(t *testing.T, envelope []byte) map[string]any {
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

// Project makes a directory with files, named by their content.
func Project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func Names(res pipeline.Outcome) string {
	var list []string
	for _, a := range res.Artifacts {
		list = append(list, a.Name)
	}
	return strings.Join(list, " ")
}
