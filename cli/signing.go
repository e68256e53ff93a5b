package cli

import (
	"context"
	"crypto"
	"errors"
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

// openSigned opens the log so that what it holds is signed from time to time.
func openSigned(ctx context.Context, cfg config.Config, keys *signer.Keys) (*audit.Log, error) {
	known, err := keys.All()
	if err != nil {
		return nil, err
	}
	s := audit.Signing{Every: cfg.Audit.CheckpointRows, Key: func(ctx context.Context) (crypto.Signer, error) { return keys.Current(ctx) }}
	for _, k := range known {
		s.Known = append(s.Known, k.Ed25519())
	}
	return audit.OpenSigned(ctx, cfg.SQLitePath, s)
}
