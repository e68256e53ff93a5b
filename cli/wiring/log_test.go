package wiring

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// TestLateRowsOfALogThatCannotBeOpened checks that rows of effects that happen in any case are queued even if the log
// can't be opened, and no others.
func TestLateRowsOfALogThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Config{StateDir: dir, SQLitePath: filepath.Join(dir, "audit.db")}
	if err := os.WriteFile(cfg.SQLitePath, []byte("this is not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := Keys(cfg)
	if err != nil {
		t.Fatal(err)
	}
	log := openInBackground(t.Context(), cfg, keys, nil, nil)
	for _, late := range []bool{true, false} {
		_, err := log.Append(t.Context(), audit.Entry{Kind: "x", Namespace: "default", Late: late})
		if !errors.As(err, new(*audit.Unwritten)) || errors.As(err, new(*audit.Owed)) != late {
			t.Errorf("late %v: %v", late, err)
		}
	}
	if _, err := os.Stat(cfg.SQLitePath + "-owed"); err != nil {
		t.Error(err)
	}
}
