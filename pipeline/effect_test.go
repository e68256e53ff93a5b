package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestLayerOfKilled: that a layer was missing is told also of a program whose caller has ended it.
func TestLayerOfKilled(t *testing.T) {
	p := New(Config{Queue: NewQueue(1, 1)})
	defer p.Close()
	for name, missing := range map[string]error{
		"ours":          &Error{Stage: StageBackend, Layer: backends.LayerCgroup, Reason: "it ran without it"},
		"the backend's": &backends.Refusal{Layer: backends.LayerCgroup},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		w := &Task[NoAnswer]{Run: p.NewRun(Subject{Name: "program"}), Stage: StageBackend, Do: func(context.Context) (NoAnswer, error) {
			cancel()
			return NoAnswer{}, missing
		}}
		_, err := w.Perform(ctx)
		if e, is := errors.AsType[*Error](err); !is || e.Layer != backends.LayerCgroup {
			t.Errorf("%s: got %+v", name, e)
		}
		w.Release()
	}
}
