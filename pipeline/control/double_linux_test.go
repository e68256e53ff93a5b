package control

import (
	"context"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// recorder is a log whose writes call a function of the test.
type recorder func(ctx context.Context, entries []audit.Entry) error

func (r recorder) Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error) {
	return make([]audit.Row, len(entries)), r(ctx, entries)
}

// onWrite is a pipeline of which something can be wanted that is recorded: SetLimits.
func onWrite(f func()) *pipeline.Pipeline {
	var once atomic.Bool
	return pipeline.New(pipeline.Config{Audit: recorder(func(context.Context, []audit.Entry) error {
		if once.CompareAndSwap(false, true) {
			f()
		}
		return nil
	})})
}
