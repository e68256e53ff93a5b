package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/client"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/mcp"
	"github.com/sandboxmcp/sandboxmcp/mcp/e2b"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/mcp/sessions"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/page"
)

// web is the HTTP part of a server.
type web struct {
	door     *door.Door
	mcp      *rpc.HTTP
	e2b      *e2b.Server
	api      *control.API
	page     *page.Page // nil without a page
	log      *slog.Logger
	drain    time.Duration // time for requests under way at shutdown
	draining atomic.Bool
	writable func() error // why no row of the audit log can be written, or nil
}

// listenHTTP serves HTTP until close: the agents' protocol and the people's API for authenticated clients, the sign-in
// for everyone, and the page for browsers.
func listenHTTP(ctx context.Context, cfg config.Config, m mcp.Config, api *control.API, log *slog.Logger) (*web, error) {
	w := &web{mcp: mcp.NewHTTP(m), api: api, log: log, writable: m.Pipeline.CheckRecordable, drain: client.DrainTime}
	ids := wiring.Identities(cfg, log)
	metadata, metrics := ids.Metadata(), ids.Middleware(metricsHandler(m.Pipeline))
	if cfg.HTTP.Page {
		w.page = page.New(page.Config{Client: control.LocalClient(api), Identify: ids.Identify, Watch: ids.Watch, Origins: cfg.HTTP.Origins,
			Version: version.Current().Version, Log: log})
		api.SetPage(w.page.Invite)
	}
	site := w.page
	agents, people := ids.Middleware(w.mcp), ids.Middleware(api)
	w.e2b = e2b.New(e2b.Config{Pipeline: m.Pipeline, Identities: ids, Namespace: m.Namespace, Templates: wiring.Templates(cfg),
		Domain: cfg.HTTP.Domain, Wall: wiring.MaxTime(cfg)})
	plain := ids.MiddlewareWith(sessions.New(sessions.Config{Pipeline: m.Pipeline, Namespace: m.Namespace}), sessions.Refuse)
	hosted := w.e2b
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { // http.ServeMux would redirect clients that write //mcp
		switch path := r.URL.Path; {
		case e2b.OfPort(r.Host, cfg.HTTP.Domain):
			hosted.ServeHTTP(rw, r)
		case path == identity.MetadataPath || strings.HasPrefix(path, identity.MetadataPath+"/"):
			metadata.ServeHTTP(rw, r)
		case hosted.Owns(r):
			hosted.ServeHTTP(rw, r)
		case sessions.Owns(r):
			plain.ServeHTTP(rw, r)
		case path == "/metrics":
			metrics.ServeHTTP(rw, r)
		case strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/tools/"):
			people.ServeHTTP(rw, r)
		case site != nil && page.IsPagePath(path):
			site.ServeHTTP(rw, r)
		default:
			agents.ServeHTTP(rw, r)
		}
	})
	var err error
	if w.door, err = wiring.ListenHTTP(ctx, cfg, log, w.ready, maxRequestBytes, handler); err != nil {
		w.mcp.Close()
		w.e2b.Close()
		return nil, err
	}
	log.Info("answering over HTTP", "address", w.door.Address())
	w.notifySystemd(daemon.SdNotifyReady)
	return w, nil
}

// maxRequestBytes returns the maximum size of requests that upload files, and 0 for others.
func maxRequestBytes(r *http.Request) int64 {
	switch {
	case e2b.BringsFiles(r):
		return e2b.MaxUpload
	case control.BringsFiles(r):
		return control.MaxFiles
	case sessions.BringsFiles(r):
		return sessions.MaxUpload + 1<<20 // framing around the files
	}
	return 0
}

func (w *web) ready() error {
	if w.draining.Load() {
		return errors.New("the server is shutting down")
	}
	if w.writable() != nil {
		return errors.New(audit.UnwrittenText) // without the cause, which names files of this machine
	}
	return nil
}

// close stops accepting requests, drains those under way, and returns.
func (w *web) close() {
	w.draining.Store(true)
	w.notifySystemd(daemon.SdNotifyStopping)
	w.mcp.Drain()
	if w.page != nil {
		w.page.Close()
	}
	w.api.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), w.drain)
	defer cancel()
	if err := w.door.Drain(ctx); err != nil {
		w.log.Warn("requests under way were cut off", "error", err)
	}
	w.mcp.Close()
	w.e2b.Close()
}

// notifySystemd notifies systemd, if it started the server.
func (w *web) notifySystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		w.log.Warn("systemd can't be told", "state", state, "error", err)
	}
}
