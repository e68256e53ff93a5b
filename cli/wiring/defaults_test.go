package wiring

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Both config, which imports no other package, and the pipeline and the backends, for users without a configuration,
// define the defaults.
func TestDefaultsAreOurs(t *testing.T) {
	cfg, err := config.Load(config.Options{Env: []string{"HOME=/home/x"}})
	if err != nil {
		t.Fatal(err)
	}
	sessionDefaults := session.Defaults
	sessionDefaults.PausedBytes = 0 // no setting changes it
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"limits", pipeline.DefaultBounds, pipelineBounds(cfg.Limits)},
		{"caps", pipeline.DefaultCaps, pipelineBounds(cfg.Caps)},
		{"artifacts", pipeline.DefaultArtifacts, artifactPolicy(cfg)},
		{"room to wait", pipeline.DefaultQueueRoom, cfg.MaxQueue},
		{"sessions", sessionDefaults, *sessionConfig(cfg)},
		{"packages", int64(packages.DefaultMaxBytes), cfg.Packages.MaxMB << 20},
		{"what is kept", int64(results.DefaultMaxBytes), cfg.Keep.MaxMB << 20},
		{"languages", backends.Languages, config.Languages()},
		{"how long it is kept", results.DefaultMaxAge, time.Duration(cfg.Keep.Hours) * time.Hour},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: ours differ from the configuration's:\n%s", tt.name, diff)
		}
	}
}

// TestDerived checks defaults that depend on other settings.
func TestDerived(t *testing.T) {
	var cfg config.Config
	cfg.Keep.MaxMB = 10
	if got := artifactPolicy(cfg).MaxBytes; got != 5<<20 {
		t.Errorf("the files of a run have %d bytes of the 10 MB that are kept", got)
	}
	for total, want := range map[int]int{4000: 1000, 1024: 256, 4: 64} { // the last is bounded by the total
		cfg.Sessions.PerNamespace, cfg.Sessions.Total = 64, total
		if got := sessionConfig(cfg).PerIdentity; got != want {
			t.Errorf("of %d sessions an identity has %d, want %d", total, got, want)
		}
	}
	for runs, want := range map[int]int{1: 8, 6: 12, 1000: 64} {
		if got := idleSandboxes(runs); got != want {
			t.Errorf("%d runs at a time: %d idle sandboxes, want %d", runs, got, want)
		}
	}
}
