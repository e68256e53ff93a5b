package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// withLog opens the audit log for f. Signals end its context.
func withLog(c *cli.Context, f func(context.Context, *audit.Log) error) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c)
	defer stop()
	log, err := audit.Open(ctx, cfg.SQLitePath)
	if err != nil {
		return err
	}
	defer log.Close()
	return f(ctx, log)
}

// withSignedLog is withLog for what needs a checkpoint. The first time, that makes the key.
func withSignedLog(c *cli.Context, f func(context.Context, *audit.Log) error) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	keys, err := keysOf(cfg)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c)
	defer stop()
	log, err := openSigned(ctx, cfg, keys)
	if err != nil {
		return err
	}
	err, unsigned := f(ctx, log), log.Close()
	if err != nil {
		return err // and not once more what Close has to say about it
	}
	return unsigned
}
