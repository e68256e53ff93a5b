package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// The numbers stand in config, which imports none of ours, and in the pipeline, for those that use
// it without a configuration.
func TestDefaultsAreThePipelines(t *testing.T) {
	cfg, err := config.Load(config.Options{Env: []string{"HOME=/home/x"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"limits", pipeline.DefaultBounds, bounds(cfg.Limits)},
		{"caps", pipeline.DefaultCaps, bounds(cfg.Caps)},
		{"artifacts", pipeline.DefaultArtifacts, artifacts(cfg)},
		{"room to wait", pipeline.DefaultRoom, cfg.MaxQueue},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: the pipeline's differ from the configuration's:\n%s", tt.name, diff)
		}
	}
}
