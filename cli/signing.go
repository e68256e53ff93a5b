package cli

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// keysOf are the keys of the state directory. That one is made or replaced is in the log before it is used.
func keysOf(cfg config.Config) (*signer.Keys, error) {
	return signer.OpenKeys(filepath.Join(cfg.StateDir, "keys"), func(ctx context.Context, change signer.Change) error {
		log, err := audit.Open(ctx, cfg.SQLitePath)
		if err != nil {
			return err
		}
		data := map[string]any{"key": change.ID}
		if change.Old != "" {
			data["replaces"] = change.Old
		}
		_, err = log.Append(ctx, audit.Entry{Kind: change.Kind, Namespace: "default", Data: data})
		return errors.Join(err, log.Close())
	})
}

// signNow signs what is in the log: what a command has just written about a key must not wait for the next run.
func signNow(ctx context.Context, cfg config.Config, keys *signer.Keys) error {
	log, err := openSigned(ctx, cfg, keys)
	if err != nil {
		return err
	}
	_, err = log.Checkpoint(ctx)
	closed := log.Close()
	if err != nil {
		return err
	}
	return closed
}

// openSigned opens the log so that what it holds is signed from time to time. What goes wrong with that is an
// error of its Close.
func openSigned(ctx context.Context, cfg config.Config, keys *signer.Keys) (*audit.Log, error) {
	return openLogged(ctx, cfg, keys, nil)
}

// openLogged is openSigned for a server, which tells its log at once what goes wrong.
func openLogged(ctx context.Context, cfg config.Config, keys *signer.Keys, log *slog.Logger) (*audit.Log, error) {
	if !keys.Made() { // which opens the log
		if _, err := keys.Current(ctx); err != nil {
			return nil, fmt.Errorf("open audit log %q: %w", cfg.SQLitePath, err)
		}
	}
	return audit.OpenSigned(ctx, cfg.SQLitePath, audit.Signing{
		Every: cfg.Audit.CheckpointRows, Log: log,
		Key: func(ctx context.Context) (crypto.Signer, error) { return keys.Current(ctx) },
		Known: func() (known []ed25519.PublicKey) {
			all, _ := keys.All() // what can't be read is not known
			for _, k := range all {
				known = append(known, k.Ed25519())
			}
			return known
		},
	})
}
