package wiring

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// A server pushes checkpoints that are signed while it runs, and at its end.
func TestPushing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kept.note")
	cfg := config.Config{StateDir: t.TempDir(), SQLitePath: filepath.Join(t.TempDir(), "log.db"), Vault: []string{"environment"}}
	cfg.Audit.Push = []string{file}
	p, err := New(t.Context(), cfg, Purpose{})
	if err != nil {
		t.Fatal(err)
	}
	stop := p.StartPushing(t.Context(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	var seen []byte
	more := func() {
		t.Helper()
		if _, err := p.Log.Append(t.Context(), audit.Entry{Kind: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		more()
		hosttest.Until(t, "the checkpoint is pushed", func() bool {
			note, _ := os.ReadFile(file)
			same := bytes.Equal(note, seen)
			seen = note
			return !same
		})
	}
	stop()
	more()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := PushLast(t.Context(), cfg, p.Places); err != nil {
		t.Fatal(err)
	}
	if last, err := os.ReadFile(file); err != nil || bytes.Equal(last, seen) {
		t.Errorf("the last checkpoint was not pushed: %v", err)
	}
}
