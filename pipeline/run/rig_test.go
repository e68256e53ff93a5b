package run_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// doing is an effect of any kind, to be had.
type doing func(context.Context, *pipeline.Pipeline) (pipeline.Outcome, error)

func doingOf[T any](e pipeline.Effect[T]) doing {
	return func(ctx context.Context, p *pipeline.Pipeline) (pipeline.Outcome, error) {
		_, res, err := pipeline.Do(ctx, p, e)
		return res, err
	}
}

// textOf returns a cell's result as text.
func textOf(res pipeline.Outcome) string {
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

// begun starts an effect, and returns its run once that is under way with a program. wait returns its result.
func begun(t *testing.T, p *pipeline.Pipeline, q run.Request) (r pipeline.RunningEffect, wait func() pipeline.Outcome) {
	t.Helper()
	results := make(chan pipeline.Outcome, 1)
	go func() {
		_, res, _ := pipeline.Do(context.Background(), p, q) // a test that ends interrupts it
		results <- res
	}()
	hosttest.Until(t, "it runs", func() bool {
		list := p.ListRunning("")
		if len(list) == 1 && list[0].Usage != nil && list[0].Usage.Processes > 0 { // it may have begun a moment before it has processes
			r = list[0]
		}
		return r.Run != ""
	})
	return r, func() pipeline.Outcome { return <-results }
}

// signing is a rig that signs, and its keys.
func signing(t *testing.T, change func(*pipeline.Config)) (*pipelinetest.Rig, *signer.Keys) {
	t.Helper()
	keys, err := signer.OpenKeys(filepath.Join(t.TempDir(), "keys"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return pipelinetest.NewRig(t, func(c *pipeline.Config) {
		c.Keys, c.Policy, c.Version = keys, []byte("policy"), "v1.2.3"
		if change != nil {
			change(c)
		}
	}), keys
}

// predicateOf returns the predicate of a receipt, as any reader of DSSE and in-toto finds it.
func predicateOf(t *testing.T, envelope []byte) map[string]any {
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

// project makes a directory with files, named by their content.
func project(t *testing.T, files map[string]string) string {
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

func fileNames(res pipeline.Outcome) string {
	var list []string
	for _, a := range res.Artifacts {
		list = append(list, a.Name)
	}
	return strings.Join(list, " ")
}

// stranger is a token that is in no vault, made from pieces.
var stranger = "gh" + "p_" + "Zk3vQ9xL1mW7" + "rT5yB2nC8dF4" + "hJ6gP0sA1uE3"

const password = "correct-horse-battery-staple"

// checkAbsent returns an error if text is in a file or in the name of one below dir.
func checkAbsent(dir, text string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		content, _ := os.ReadFile(path)
		if strings.Contains(d.Name(), text) || strings.Contains(string(content), text) {
			return fmt.Errorf("%s holds %q", path, text)
		}
		return nil
	})
}

func newAsking(t *testing.T, ask bool) (*pipeline.Pipeline, *pipelinetest.FlakyLog, *pipelinetest.Town, *approval.Broker) {
	var broker *approval.Broker
	p, log, _, w := pipelinetest.NewTown(t, nil, func(c *pipeline.Config) {
		broker = approval.New(approval.Config{Audit: c.Audit})
		c.Approvals, c.Egress.Ask = broker, ask
	})
	t.Cleanup(func() { broker.Close() })
	return p, log, w, broker
}

// The doors of a sandbox in which a person is asked are on port 80, so the server must be there: on an address that
// no other process of the same tests uses.
func serve80(t *testing.T, w *pipelinetest.Town, name string, h http.Handler) {
	t.Helper()
	at := netip.AddrFrom4([4]byte{127, 9, byte(os.Getpid() >> 8), byte(os.Getpid())})
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, 80).String())
	if err != nil {
		hosttest.SkipMissing(t, "port 80", err.Error())
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	w.Names[name] = at
}

func wasAsked(w *pipelinetest.Town, host string) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Contains(w.Asked, host)
}
