package cli

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// load returns the configuration as the command line, the environment and the file have it.
func load(c *cli.Context) (config.Config, error) {
	flags := map[string]string{}
	if db := c.String("db"); db != "" {
		flags["sqlite_path"] = db
	}
	cfg, err := config.Load(config.Options{File: c.String("config"), Env: os.Environ(), Flags: flags})
	if err != nil {
		return cfg, usage("sandboxmcp config --help", "%v", err)
	}
	return cfg, nil
}

// parts are what a run needs, wired together.
type parts struct {
	pipeline *pipeline.Pipeline
	backend  backends.Backend
	log      *openingLog
}

// wire puts the parts together. delegate has systemd asked for a cgroup, if it takes that.
func wire(ctx context.Context, cfg config.Config, delegate bool) (*parts, error) {
	log := openSoon(ctx, cfg.SQLitePath)
	backend := process.New(process.Config{StateDir: cfg.StateDir, Delegate: delegate})
	backend.Warm()
	return &parts{
		backend: backend,
		log:     log,
		pipeline: pipeline.New(pipeline.Config{
			Backends:  []backends.Backend{backend},
			Audit:     log,
			Vault:     stores(cfg),
			Queue:     pipeline.NewQueue(cfg.MaxConcurrent, cfg.MaxQueue),
			Temp:      filepath.Join(cfg.StateDir, "tmp"),
			Profile:   cfg.Profile,
			Profiles:  profiles(cfg),
			Limits:    bounds(cfg.Limits),
			Caps:      bounds(cfg.Caps),
			Artifacts: artifacts(cfg),
			Protected: append([]string{cfg.StateDir, cfg.SQLitePath}, configFolder()...),
		}),
	}, nil
}

// configFolder is where the user's own configuration is, if that can be known.
func configFolder() []string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(dir, "sandboxmcp")}
}

// Close ends what the parts keep open. Both halves take a millisecond or two, so they share them.
func (p *parts) Close() {
	var both sync.WaitGroup
	both.Go(func() { p.backend.Close() })
	both.Go(func() { p.log.Close() })
	both.Wait()
}

func stores(cfg config.Config) *vault.Vault {
	var all []vault.Store
	for _, name := range cfg.Vault {
		switch name {
		case "environment":
			all = append(all, vault.Environment())
		case "memory":
			all = append(all, vault.NewMemory())
		}
	}
	return vault.New(all...)
}

func profiles(cfg config.Config) map[string]pipeline.Profile {
	all := map[string]pipeline.Profile{}
	for name, p := range cfg.Profiles {
		all[name] = pipeline.Profile{Base: p.Layers, Require: p.Require}
	}
	return all
}

func artifacts(cfg config.Config) pipeline.ArtifactPolicy {
	return pipeline.ArtifactPolicy{
		MaxCount:    cfg.Artifacts.MaxCount,
		MaxBytes:    cfg.Artifacts.MaxMB << 20,
		ShowSecrets: !cfg.Artifacts.Withhold,
	}
}

func bounds(l config.Limits) pipeline.Bounds {
	return pipeline.Bounds{
		Limits: backends.Limits{
			RAM:       l.RAMMB << 20,
			Wall:      l.Timeout(),
			CPU:       l.CPUCores,
			Processes: int(l.Processes),
			Disk:      l.DiskMB << 20,
		},
		Output: l.OutputBytes,
	}
}

// openingLog is an audit log that is being opened, while there is other work to do. It is
// waited for where the first row is written.
type openingLog struct {
	ready chan struct{}
	log   *audit.Log
	err   error
}

func openSoon(ctx context.Context, path string) *openingLog {
	l := &openingLog{ready: make(chan struct{})}
	go func() {
		defer close(l.ready)
		l.log, l.err = audit.Open(ctx, path)
	}()
	return l
}

// Append implements pipeline.Recorder.
func (l *openingLog) Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error) {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.err != nil {
		return nil, l.err
	}
	return l.log.Append(ctx, entries...)
}

// Close closes the log, if it could be opened. It gives an opening that hangs a moment only.
func (l *openingLog) Close() error {
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
