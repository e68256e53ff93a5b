package wiring

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/mcp/e2b"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/page"
)

// ListenHTTP takes requests over HTTP where the configuration says, and gives them to h. ready says why the server is not ready, or nil, and
// largest how many bytes a request may have: see door.Config.
func ListenHTTP(ctx context.Context, cfg config.Config, log *slog.Logger, ready func() error, largest func(*http.Request) int64, h http.Handler) (*door.Door, error) {
	c := doorOf(cfg.HTTP)
	c.Handler, c.Ready, c.Log, c.Largest = h, ready, log, largest
	if cfg.HTTP.Page {
		c.Linked = page.Linked
	}
	return door.Listen(ctx, c)
}

func doorOf(h config.HTTP) door.Config {
	return door.Config{Address: h.Listen, Group: h.Group, Cert: h.Cert, Key: h.Key, ClientCA: h.ClientCA, Hosts: slices.Concat(h.Hosts, e2b.Names(h.Domain)),
		Origins: h.Origins, Open: e2b.Open, Apart: func(host string) bool { return e2b.OfPort(host, h.Domain) }}
}
