package cli

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
)

// browserFinding is the browser that browser_fetch would start.
func browserFinding(ctx context.Context, cfg config.Config) finding {
	f := finding{Kind: "browser", Name: "chromium"}
	found, err := browser.Find(cfg.Web.Browser)
	if err != nil {
		f.Detail, f.Remedy = err.Error(), browser.Remedy
		return f
	}
	f.OK, f.Name, f.Detail = true, filepath.Base(found.Path), found.Path
	if v := browserVersion(ctx, found.Path); v != "" {
		f.Detail += ", version " + v
	}
	if !cfg.Web.Enabled {
		f.Detail += ", not used: web.enabled is not set"
	}
	return f
}

// browserVersion is the first word with a digit of what the browser says it is: "Chromium 156.0.8078.79 built on Debian".
func browserVersion(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	for _, word := range strings.Fields(string(out[:min(len(out), 300)])) {
		if word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return ""
}
