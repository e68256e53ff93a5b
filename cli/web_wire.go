package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// webOf is what the configuration lets callers read of the web, over the dialer of all that leaves.
func webOf(cfg config.Config, out pipeline.Egress) (w pipeline.Web, err error) {
	if !cfg.Web.Enabled {
		return w, nil
	}
	const hint = "sandboxmcp config shows where it is set"
	if len(cfg.Web.Allow) > 0 {
		w.Policy, err = egress.NewPolicy(cfg.Web.Allow, cfg.Egress.Deny)
	} else {
		w.Policy, err = egress.PublicWeb(cfg.Egress.Deny)
	}
	if err != nil {
		return w, exit.Usage(hint, "web.allow: %v", err)
	}
	w.Policy = w.Policy.WithLocal(cfg.Egress.Local)
	if w.Engines, err = web.NewEngines(cfg.Web.Engines, cfg.Web.SearXNG, w.Policy, cfg.Egress.Deny); err != nil {
		return w, exit.Usage(hint, "web: %v", err)
	}
	w.Client = web.NewClient(web.Config{Dialer: out.Dialer, Roots: out.Roots, MaxBytes: cfg.Web.MaxMB << 20, Version: version.Current().Version})
	w.Browser, w.Authorities = cfg.Web.Browser, browser.Authorities
	w.Timeout = time.Duration(cfg.Web.TimeoutSeconds) * time.Second
	w.Reader, err = readerOf()
	return w, err
}

// readerOf is the program that parses pages in a sandbox: ourselves. Where there are no sandboxes of processes, it
// is none.
func readerOf() (string, error) {
	if runtime.GOOS != "linux" {
		return "", nil
	}
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return "", exit.Fail("start sandboxmcp again", "sandboxmcp itself, which reads web pages in a sandbox, is not there any more: %v", err)
	}
	return program, nil
}
