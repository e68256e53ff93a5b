package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// API returns the API for people, which serves their command line on this server's socket, their identities over HTTP,
// and the page.
func (p *Parts) API(ctx context.Context, cfg config.Config, namespace string, more []operation.Operation, log *slog.Logger) *control.API {
	return control.New(control.Config{
		Server: control.Server{PID: os.Getpid(), Version: version.Current().Version, Began: time.Now(), Database: cfg.SQLitePath,
			Namespace: namespace},
		Pipeline:  p.Pipeline,
		Runs:      p.runs,
		Sweep:     p.recordCrashes(cfg),
		Alike:     p.serverFingerprint(ctx, cfg),
		Approvals: p.Approvals,
		Events:    p.bus,
		Records:   p.Log,
		Keys:      p.keys,
		Results:   p.Results,
		Settings:  func() []control.Setting { return settingsOf(cfg) },
		Doctor:    func(ctx context.Context) ([]control.Finding, error) { return runDoctor(ctx, cfg) },
		Disk:      func() (control.Disk, error) { return measureDisk(cfg) },
		More:      more,
		Log:       log,
	})
}

func settingsOf(cfg config.Config) (all []control.Setting) {
	for _, s := range cfg.Origins() {
		all = append(all, control.Setting{Key: s.Key, Value: s.Value, From: s.From})
	}
	return all
}

// runDoctor runs the command in another process: it opens the log, which a process may do only once, and starts the
// backends that it probes.
func runDoctor(ctx context.Context, cfg config.Config) ([]control.Finding, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find sandboxmcp itself: %w", err)
	}
	args := []string{"--db", cfg.SQLitePath, "doctor", "--json"}
	if cfg.File != "" {
		args = append([]string{"--config", cfg.File}, args...)
	}
	out, err := exec.CommandContext(ctx, self, args...).Output()
	var d struct {
		Findings []control.Finding `json:"findings"`
	}
	if json.Unmarshal(out, &d) == nil && d.Findings != nil { // an unusable default profile is a finding as well as an exit code
		return d.Findings, nil
	}
	return nil, fmt.Errorf("run sandboxmcp doctor: %w", errors.Join(err, ctx.Err()))
}

// measureDisk measures the free space and the size of the state.
func measureDisk(cfg config.Config) (d control.Disk, err error) {
	d.Free, d.Total = statefile.Space(cfg.StateDir)
	files, err := audit.Files(cfg.SQLitePath)
	for _, file := range files {
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(file + suffix); err == nil {
				d.Log += info.Size()
			}
		}
	}
	return d, err
}
