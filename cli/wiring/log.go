package wiring

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// WithLog opens the audit log for f. Signals end its context.
func WithLog(c *cli.Context, f func(context.Context, *audit.Log) error) error {
	return withLogBy(audit.Open, c, f)
}

// WithLogToRead is WithLog for callers that read the log once, also on a full disk.
func WithLogToRead(c *cli.Context, f func(context.Context, *audit.Log) error) error {
	return withLogBy(audit.OpenToRead, c, f)
}

func withLogBy(open func(context.Context, string) (*audit.Log, error), c *cli.Context, f func(context.Context, *audit.Log) error) error {
	cfg, err := Load(c)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	log, err := open(ctx, cfg.SQLitePath)
	if err != nil {
		return err
	}
	defer log.Close()
	return f(ctx, log)
}

// WithSignedLog is WithLog for a log whose rows are signed. The first call creates the key.
func WithSignedLog(c *cli.Context, f func(context.Context, *audit.Log) error) error {
	return withSignedLog(c, audit.Signing{}, f)
}

// WithFreedLog is WithSignedLog for callers that free space of the log: it opens it on a full disk, too.
func WithFreedLog(c *cli.Context, f func(context.Context, *audit.Log) error) error {
	return withSignedLog(c, audit.Signing{FreesSpace: true}, f)
}

func withSignedLog(c *cli.Context, s audit.Signing, f func(context.Context, *audit.Log) error) error {
	cfg, keys, err := LoadKeys(c)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	log, err := openSigned(ctx, cfg, keys, s)
	if err != nil {
		return err
	}
	return cmp.Or(f(ctx, log), log.Close()) // f's error takes precedence over that of Close
}

// pendingLog is an audit log that is being opened in the background. The first row waits for it.
type pendingLog struct {
	path  string
	ready chan struct{}
	log   *audit.Log
	err   error

	logger *slog.Logger // receives errors of writing and reading rows
	last   atomic.Int64 // time of the last such message, in seconds since 1970
}

func openInBackground(ctx context.Context, cfg config.Config, keys *signer.Keys, log *slog.Logger, signed func()) *pendingLog {
	l := &pendingLog{path: cfg.SQLitePath, ready: make(chan struct{}), logger: log}
	go func() {
		defer close(l.ready)
		l.log, l.err = openLogged(ctx, cfg, keys, audit.Signing{Log: log, OnSigned: signed})
	}()
	return l
}

// Append implements pipeline.Recorder.
func (l *pendingLog) Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error) {
	log, err := l.waitOpened(ctx)
	if err != nil {
		return nil, audit.Owe(l.path, audit.NotWritten(err), entries...)
	}
	rows, err := log.Append(ctx, entries...)
	if err != nil && ctx.Err() == nil {
		l.logFailure(unwritable, err)
	}
	return rows, err
}

// Messages in the server's log about a failing audit log.
const (
	unwritable = "the audit log can't be written: nothing is run meanwhile"
	unreadable = "the audit log can't be read"
)

// logFailure logs why rows can't be written or read, at most once a minute: clients are not told.
func (l *pendingLog) logFailure(what string, err error) {
	now, last := time.Now().Unix(), l.last.Load()
	if l.logger != nil && now-last >= 60 && l.last.CompareAndSwap(last, now) {
		l.logger.Error(what, "error", err)
	}
}

// logReadFailure logs a read error and returns it.
func (l *pendingLog) logReadFailure(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && !errors.Is(err, audit.ErrNoReceipt) {
		l.logFailure(unreadable, err)
	}
	return err
}

// Writable returns why no row can be written, or nil. It does not wait for a log that is being opened.
func (l *pendingLog) Writable() error {
	select {
	case <-l.ready:
	default:
		return nil
	}
	err := l.err
	if err == nil {
		err = l.log.Writable()
	}
	if err != nil {
		l.logFailure(unwritable, err)
	}
	return err
}

// Unopened waits for the log and returns why it could not be opened, which is final. It returns nil if ctx ends first.
func (l *pendingLog) Unopened(ctx context.Context) error {
	if _, err := l.waitOpened(ctx); err != nil && ctx.Err() == nil {
		_, hint := exit.Reason(err)
		return exit.Fail(hint, "the audit log can't be opened: %v", err)
	}
	return nil
}

// waitOpened waits for the log.
func (l *pendingLog) waitOpened(ctx context.Context) (*audit.Log, error) {
	select {
	case <-l.ready:
		return l.log, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Rows implements mcp.Log.
func (l *pendingLog) Rows(ctx context.Context, f audit.Filter) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		log, err := l.waitOpened(ctx)
		if err != nil {
			yield(audit.Row{}, err)
			return
		}
		for r, err := range log.Rows(ctx, f) {
			if !yield(r, l.logReadFailure(ctx, err)) {
				return
			}
		}
	}
}

// Receipt implements mcp.Log.
func (l *pendingLog) Receipt(ctx context.Context, run string) ([]byte, error) {
	log, err := l.waitOpened(ctx)
	if err != nil {
		return nil, err
	}
	receipt, err := log.Receipt(ctx, run)
	return receipt, l.logReadFailure(ctx, err)
}

// RowWithReceipt implements control.Records.
func (l *pendingLog) RowWithReceipt(ctx context.Context, run string) (audit.Row, []byte, error) {
	log, err := l.waitOpened(ctx)
	if err != nil {
		return audit.Row{}, nil, err
	}
	row, receipt, err := log.RowWithReceipt(ctx, run)
	return row, receipt, l.logReadFailure(ctx, err)
}

// Proof implements control.Records.
func (l *pendingLog) Proof(ctx context.Context, id string) ([]byte, error) {
	log, err := l.waitOpened(ctx)
	if err != nil {
		return nil, err
	}
	proof, err := log.Proof(ctx, id)
	return proof, l.logReadFailure(ctx, err)
}

// Close closes the log if it was opened. It waits only briefly for an opening that hangs.
func (l *pendingLog) Close() error {
	select {
	case <-l.ready:
	case <-time.After(time.Second):
		return nil
	}
	if l.log == nil {
		return nil
	}
	return l.log.Close()
}

// Keys opens the signing keys of the state directory. A new key is recorded in the log before it is used.
func Keys(cfg config.Config) (*signer.Keys, error) {
	return signer.OpenKeys(filepath.Join(cfg.StateDir, "keys"), func(ctx context.Context, change signer.Change) error {
		data := map[string]any{"key": change.ID}
		if change.Old != "" {
			data["replaces"] = change.Old
		}
		if change.Kind == signer.Revoked {
			data["from"], data["reason"] = change.From, change.Reason
		}
		entry := audit.Entry{Kind: change.Kind, Namespace: "default", Data: data, Late: change.Kind == signer.Revoked}
		log, err := audit.Open(ctx, cfg.SQLitePath)
		if err != nil {
			return audit.Owe(cfg.SQLitePath, err, entry)
		}
		if change.Kind == signer.Created && !change.Asked {
			if _, err := log.NewestCheckpoint(ctx); !errors.Is(err, audit.ErrUnsigned) {
				return errors.Join(checkLostKey(cfg, err), log.Close())
			}
		}
		_, err = log.Append(ctx, entry)
		return errors.Join(err, log.Close())
	})
}

// SignNow signs the current log: rows about a key must not wait for the next run.
func SignNow(ctx context.Context, cfg config.Config, keys *signer.Keys) error {
	log, err := openSigned(ctx, cfg, keys, audit.Signing{})
	if err != nil {
		return err
	}
	_, err = log.Checkpoint(ctx)
	return cmp.Or(err, log.Close())
}

// RecordIn appends a row to the log and signs a checkpoint.
func RecordIn(ctx context.Context, cfg config.Config, entry audit.Entry) error {
	keys, err := Keys(cfg)
	if err != nil {
		return err
	}
	log, err := openSigned(ctx, cfg, keys, audit.Signing{})
	if err != nil {
		return err
	}
	_, err = log.Append(ctx, entry)
	if err == nil {
		_, err = log.Checkpoint(ctx)
	}
	return errors.Join(err, log.Close())
}

// openSigned opens the log with signing, and adds the rows that killed processes owe. Signing errors are errors of its
// Close.
func openSigned(ctx context.Context, cfg config.Config, keys *signer.Keys, s audit.Signing) (*audit.Log, error) {
	log, err := openLogged(ctx, cfg, keys, s)
	if err == nil {
		pipeline.RecordCrashes(ctx, log, journalsDir(cfg), nil)
	}
	return log, err
}

// openLogged is openSigned for a server: it logs signing errors at once, and calls signed after each checkpoint.
func openLogged(ctx context.Context, cfg config.Config, keys *signer.Keys, s audit.Signing) (*audit.Log, error) {
	if !keys.HasKey() { // opens the log
		if _, err := keys.Current(ctx); err != nil {
			return nil, fmt.Errorf("open audit log %q: %w", cfg.SQLitePath, err)
		}
	}
	s.Key = func(ctx context.Context) (crypto.Signer, error) { return keys.Current(ctx) }
	s.KnownKeys = func() []checkpoint.Key {
		trust, err := keys.Trust()
		if err != nil { // an unreadable revocation is unknown
			return nil
		}
		return CheckpointKeys(trust)
	}
	return audit.OpenSigned(ctx, cfg.SQLitePath, s)
}

// CheckpointKeys converts trusted keys for the verification of the log.
func CheckpointKeys(trust *signer.Trust) (all []checkpoint.Key) {
	for _, k := range trust.Keys() {
		all = append(all, checkpoint.Key{PublicKey: k.Ed25519(), End: k.ValidUntil()})
	}
	return all
}

// checkLostKey returns an error instead of creating a key if another key, which is missing, has signed the log.
func checkLostKey(cfg config.Config, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("the log %q is signed, and the key that signed it is not in %q: put it back or, if it is lost, make another one with "+
		"sandboxmcp key rotate",
		cfg.SQLitePath, filepath.Join(cfg.StateDir, "keys"))
}

// LoadKeys returns the configuration of a command line with its signing keys.
func LoadKeys(c *cli.Context) (cfg config.Config, keys *signer.Keys, err error) {
	if cfg, err = Load(c); err == nil {
		keys, err = Keys(cfg)
	}
	return cfg, keys, err
}
