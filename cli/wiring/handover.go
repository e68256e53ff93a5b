package wiring

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// fingerprint returns a digest of all that decides how this process would run something, beside the request: the
// program itself, the configuration, the interpreters that it finds, and what the environment and the kernel permit.
// Two processes with the same do the same. It is "" where that can't be known.
func fingerprint(ctx context.Context, cfg config.Config) string {
	found := make(chan string, 1)
	go func() { found <- interpreters(ctx) }()
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return !affectsRuns(kv) })
	slices.Sort(env)
	standing, err := kernelState()
	programs := <-found
	if err != nil || ctx.Err() != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v\n%q\n%s\n%s", cfg, env, programs, standing)) // cfg with where its settings came from
	return hex.EncodeToString(sum[:])
}

// interpreters are those that this process would take.
func interpreters(ctx context.Context) string {
	var all strings.Builder
	env := runtimes.FromOS()
	for _, language := range backends.Languages {
		r, err := runtimes.Find(ctx, language, env)
		r.Why, r.Version = "", "" // are for people
		fmt.Fprintf(&all, "%#v %v %s\n", r, err == nil, edition(r.Path))
	}
	return all.String()
}

// affectsRuns reports whether runs depend on a variable of the environment, beside those that find interpreters: those
// that find files of ours, secrets, hosts, and sockets that nobody may be shown.
func affectsRuns(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return strings.HasPrefix(name, "SANDBOXMCP_") || slices.Contains([]string{
		"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR", "TZ", "DOCKER_HOST", "CONTAINER_HOST",
		"DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "LOCALDOMAIN", "RES_OPTIONS",
	}, name)
}

// serverFingerprint returns what a client's fingerprint must equal for its runs to be handed to this server. The log's
// file may be made while the server starts.
func (p *Parts) serverFingerprint(ctx context.Context, cfg config.Config) func() string {
	own := fingerprint(ctx, cfg)
	return func() string {
		log, err := p.Log.opened(ctx)
		if err != nil {
			return ""
		}
		file, err := log.Active(ctx)
		return withLog(own, file, err)
	}
}

func clientFingerprint(ctx context.Context, cfg config.Config) string {
	files, err := audit.Files(cfg.SQLitePath)
	if err != nil || len(files) == 0 {
		return ""
	}
	file, err := os.Stat(files[len(files)-1])
	return withLog(fingerprint(ctx, cfg), file, err)
}

// withLog adds which file rows are appended to: one that was replaced is not that of a server which has it open.
func withLog(own string, file os.FileInfo, err error) string {
	if own == "" || err != nil {
		return ""
	}
	return own + "-" + fileID(file)
}

// maxHanded is how long a run may take at most that is handed over: a server ends with its agent, and takes what it
// runs along.
const maxHanded = 5 * time.Minute

// HandOver finds a server of this user that takes a run on and does all as this process would; nil if there is none.
// Nothing of this process is open yet, and its input is not read.
func HandOver(ctx context.Context, c *cli.Context, cfg config.Config, q run.Request) *control.Taken {
	local, _ := egress.CutLocal(q.Allow) // which this process opens for itself
	containers := cfg.Backend != "process" || cmp.Or(q.Backend, cfg.Backend) != "process"
	switch {
	case c.Bool("here"), c.Bool("tty"), cfg.Network == "ask", containers, len(q.GPUs) > 0, len(local) > 0,
		slices.Contains(cfg.Vault, "memory"), cmp.Or(q.Limits.Wall, cfg.Limits.Timeout()) > maxHanded:
		return nil
	}
	return control.Offer(ctx, SocketDir(cfg), func() string { return clientFingerprint(ctx, cfg) }, q)
}
