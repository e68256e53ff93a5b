package cli

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// pendingLog is an audit log that is being opened, while there is other work to do. It is
// waited for where the first row is written.
type pendingLog struct {
	ready chan struct{}
	log   *audit.Log
	err   error
}

func openInBackground(ctx context.Context, cfg config.Config, keys *signer.Keys, log *slog.Logger, signed func()) *pendingLog {
	l := &pendingLog{ready: make(chan struct{})}
	go func() {
		defer close(l.ready)
		l.log, l.err = openLogged(ctx, cfg, keys, log, signed)
	}()
	return l
}

// Append implements pipeline.Recorder.
func (l *pendingLog) Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error) {
	log, err := l.opened(ctx)
	if err != nil {
		return nil, err
	}
	return log.Append(ctx, entries...)
}

// opened waits for the log.
func (l *pendingLog) opened(ctx context.Context) (*audit.Log, error) {
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
		log, err := l.opened(ctx)
		if err != nil {
			yield(audit.Row{}, err)
			return
		}
		log.Rows(ctx, f)(yield)
	}
}

// Receipt implements mcp.Log.
func (l *pendingLog) Receipt(ctx context.Context, run string) ([]byte, error) {
	log, err := l.opened(ctx)
	if err != nil {
		return nil, err
	}
	return log.Receipt(ctx, run)
}

// Close closes the log, if it could be opened. It gives an opening that hangs a moment only.
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
