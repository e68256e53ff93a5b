package pipeline

import (
	"context"
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
		w := &task{run: p.begin(Request{Name: "program"}), stage: StageBackend, do: func(context.Context) error {
			cancel()
			return missing
		}}
		if e := stopped(t, w.perform(ctx)); e.Layer != backends.LayerCgroup {
			t.Errorf("%s: got %+v", name, e)
		}
		w.release()
	}
}
