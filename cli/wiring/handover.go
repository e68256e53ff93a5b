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

// fingerprint returns a digest of everything, besides the request, that determines how this process would run a
// program: sandboxmcp itself, the configuration, the interpreters, and the permissions by the environment and the
// kernel. Two processes with the same fingerprint behave alike. It is "" if any of that is unknown.
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
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v\n%q\n%s\n%s", cfg, env, programs, standing)) // cfg includes the sources of its settings
	return hex.EncodeToString(sum[:])
}

// interpreters lists the interpreters that this process would use.
func interpreters(ctx context.Context) string {
	var all strings.Builder
	env := runtimes.FromOS()
	for _, language := range backends.Languages {
		r, err := runtimes.FindRuntime(ctx, language, env)
		r.Why, r.Version = "", "" // only for people
		fmt.Fprintf(&all, "%#v %v %s\n", r, err == nil, fileVersion(r.Path))
	}
	return all.String()
}

// affectsRuns reports whether runs depend on an environment variable, except for those that find interpreters:
// variables that locate our files, secrets, hosts, and sockets that must stay hidden.
func affectsRuns(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return strings.HasPrefix(name, "SANDBOXMCP_") || slices.Contains([]string{
		"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR", "TZ", "DOCKER_HOST", "CONTAINER_HOST",
		"DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "LOCALDOMAIN", "RES_OPTIONS",
	}, name)
}

// serverFingerprint returns a function for the fingerprint that a client must have to hand a run over to this server.
// The log's file may be created while the server starts.
func (p *Parts) serverFingerprint(ctx context.Context, cfg config.Config) func() string {
	own := fingerprint(ctx, cfg)
	return func() string {
		log, err := p.Log.waitOpened(ctx)
		if err != nil {
			return ""
		}
		file, err := log.ActiveFile(ctx)
		return fingerprintWithLog(own, file, err)
	}
}

func clientFingerprint(ctx context.Context, cfg config.Config) string {
	files, err := audit.Files(cfg.SQLitePath)
	if err != nil || len(files) == 0 {
		return ""
	}
	file, err := os.Stat(files[len(files)-1])
	return fingerprintWithLog(fingerprint(ctx, cfg), file, err)
}

// fingerprintWithLog adds the identity of the log's file: a server that has a replaced file open must not match.
func fingerprintWithLog(own string, file os.FileInfo, err error) string {
	if own == "" || err != nil {
		return ""
	}
	return own + "-" + fileID(file)
}

// maxHanded is the maximum time limit of a run that is handed over: a server ends with its agent, and its runs with it.
const maxHanded = 5 * time.Minute

// HandOver hands a run over to a server of this user that would run it exactly as this process, or returns nil. It
// precedes any effect of this process, and its input is not read yet.
func HandOver(ctx context.Context, c *cli.Context, cfg config.Config, q run.Request) *control.RemoteRun {
	local, _ := egress.CutLocal(q.Allow) // this process opens these itself
	containers := cfg.Backend != "process" || cmp.Or(q.Backend, cfg.Backend) != "process"
	switch {
	case c.Bool("here"), c.Bool("tty"), cfg.Network == "ask", containers, len(q.GPUs) > 0, len(local) > 0,
		slices.Contains(cfg.Vault, "memory"), cmp.Or(q.Limits.Wall, cfg.Limits.Timeout()) > maxHanded:
		return nil
	}
	return control.Submit(ctx, SocketDir(cfg), func() string { return clientFingerprint(ctx, cfg) }, q)
}
