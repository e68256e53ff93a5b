package wiring

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// TestHookSecret checks that the webhook's use of its secret is recorded before it is passed on, and once.
func TestHookSecret(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SANDBOXMCP_SECRET_OPS_HOOK", "correct-horse-battery-staple")
	cfg := config.Config{StateDir: t.TempDir(), SQLitePath: t.TempDir() + "/log.db", Vault: []string{"environment"}}
	keys, err := Keys(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &Parts{Log: openInBackground(t.Context(), cfg, keys, nil, nil), bus: event.NewBus()}
	rows := func() (n int) {
		for row, err := range p.Log.Rows(t.Context(), audit.Filter{Kinds: []string{event.VaultAccessed}}) {
			if err != nil || row.Namespace != "ops" || string(row.Data) != `{"for":"webhook","secrets":["HOOK"]}` {
				t.Errorf("%+v, %v", row, err)
			}
			n++
		}
		return n
	}
	if read := p.secret(cfg, cfg.Events.WebhookSecret, "webhook"); read != nil {
		t.Error("nothing is named, and something is read")
	}
	cfg.Events.WebhookSecret = "ops/NONE"
	if _, err := p.secret(cfg, cfg.Events.WebhookSecret, "webhook")(); err == nil || rows() != 0 {
		t.Errorf("no such secret: %v, %d rows", err, rows())
	}
	cfg.Events.WebhookSecret = "ops/HOOK"
	read := p.secret(cfg, cfg.Events.WebhookSecret, "webhook")
	for range 3 {
		if value, err := read(); err != nil || string(value) != "correct-horse-battery-staple" {
			t.Errorf("got %q, %v", value, err)
		}
	}
	s, before, _ := p.bus.Listen(event.Filter{Namespace: "ops"}, 1, 0)
	s.Cancel()
	if n := rows(); n != 1 || len(before) != 1 || before[0].Name != event.VaultAccessed {
		t.Errorf("%d rows, and the events %+v", n, before)
	}
	if err := p.Log.Close(); err != nil {
		t.Fatal(err)
	}
	if value, err := p.secret(cfg, cfg.Events.WebhookSecret, "webhook")(); err == nil {
		t.Errorf("without the log: got %q", value)
	}
}
