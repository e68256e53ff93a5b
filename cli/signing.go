package cli

import (
	"context"
	"crypto"
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
		if change.Kind == signer.Revoked {
			data["from"], data["reason"] = change.From, change.Reason
		}
		if change.Kind == signer.Created && !change.Asked {
			if _, err := log.Newest(ctx); !errors.Is(err, audit.ErrUnsigned) {
				return errors.Join(lost(cfg, err), log.Close())
			}
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
	return openLogged(ctx, cfg, keys, nil, nil)
}

// openLogged is openSigned for a server, which tells its log at once what goes wrong, and calls signed when a checkpoint was made.
func openLogged(ctx context.Context, cfg config.Config, keys *signer.Keys, log *slog.Logger, signed func()) (*audit.Log, error) {
	if !keys.Made() { // which opens the log
		if _, err := keys.Current(ctx); err != nil {
			return nil, fmt.Errorf("open audit log %q: %w", cfg.SQLitePath, err)
		}
	}
	return audit.OpenSigned(ctx, cfg.SQLitePath, audit.Signing{
		Every: cfg.Audit.CheckpointRows, Log: log, Signed: signed,
		Key: func(ctx context.Context) (crypto.Signer, error) { return keys.Current(ctx) },
		Known: func() []audit.Key {
			trust, err := keys.Trust()
			if err != nil { // what can't be read is not known
				return nil
			}
			return checkingKeys(trust)
		},
	})
}

// checkingKeys are trusted keys as the log checks with them.
func checkingKeys(trust *signer.Trust) (all []audit.Key) {
	for _, k := range trust.Keys() {
		all = append(all, audit.Key{PublicKey: k.Ed25519(), Until: k.Until()})
	}
	return all
}

// lost is why no key is made in silence for a log that another one has signed.
func lost(cfg config.Config, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("the log %q is signed, and the key that signed it is not in %q: put it back or, if it is lost, make another one with sandboxmcp key rotate",
		cfg.SQLitePath, filepath.Join(cfg.StateDir, "keys"))
}
