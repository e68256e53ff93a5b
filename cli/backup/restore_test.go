package backup

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// newState creates a state directory with rows, keys, a secret and a token.
func newState(t *testing.T) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Options{Env: []string{"HOME=" + t.TempDir(), "XDG_STATE_HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err = errors.Join(err, wiring.RecordIn(t.Context(), cfg, audit.Entry{Kind: "execution.refused", Namespace: "default",
			Data: map[string]any{"reason": "a test"}}))
	}
	err = errors.Join(err, vault.NewSealed(cfg.StateDir, nil).Add(t.Context(), vault.Entry{Namespace: "default", Key: "K"},
		[]byte("a secret value"), false))
	_, _, tokenErr := identity.OpenTokens(cfg.StateDir).Create(t.Context(), identity.Token{Name: "t", Kind: identity.Agent,
		Namespaces: identity.Only("default")}, nil)
	if err := errors.Join(err, tokenErr); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestVerify checks that restore refuses inconsistent files, even if the manifest matches them.
func TestVerify(t *testing.T) {
	other := newState(t)
	replace := func(names ...string) func(*testing.T, config.Config) {
		return func(t *testing.T, cfg config.Config) {
			for _, name := range names {
				content, err := os.ReadFile(filepath.Join(other.StateDir, name))
				if err := errors.Join(err, os.WriteFile(filepath.Join(cfg.StateDir, name), content, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	remove := func(name string) func(*testing.T, config.Config) {
		return func(t *testing.T, cfg config.Config) {
			if err := os.Remove(filepath.Join(cfg.StateDir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tt := range map[string]struct {
		change func(*testing.T, config.Config)
		want   string
	}{
		"as it was":                {func(*testing.T, config.Config) {}, ""},
		"without a token":          {remove("tokens.json"), ""},
		"another key of the vault": {replace("vault.key"), "vault"},
		"no key of the vault":      {remove("vault.key"), "vault"},
		"another key that signs":   {replace("keys/signing.key"), "sign"},
		"no key that signs": {func(t *testing.T, cfg config.Config) {
			requireNoError(t, os.RemoveAll(filepath.Join(cfg.StateDir, "keys")))
		}, "sign"},
		"another log":         {replace(logName), "log"},
		"an older checkpoint": {replace(logName + "-checkpoint"), "log"},
		"no log":              {remove(logName), "it has no log"},
		"broken tokens": {func(t *testing.T, cfg config.Config) {
			requireNoError(t, os.WriteFile(filepath.Join(cfg.StateDir, "tokens.json"), []byte("{}"), 0o600))
		}, "tokens"},
		"a row that was changed": {func(t *testing.T, cfg config.Config) {
			db, err := sql.Open("sqlite", cfg.SQLitePath)
			requireNoError(t, err)
			defer db.Close()
			for _, s := range []string{"DROP TRIGGER audit_no_update", `UPDATE audit SET namespace = 'other' WHERE seq = 3`} {
				_, err := db.Exec(s)
				requireNoError(t, err)
			}
		}, "log"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newState(t)
			tt.change(t, cfg)
			err := new(restoration).verify(t.Context(), cfg)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
