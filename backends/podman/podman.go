// Package podman is a client of Podman's service, 4.0 and later.
//
// Library: podman/v5/pkg/bindings is Podman's own client. Only its root package is used, which makes the connection
// (Unix socket or ssh); the others need C libraries to be built.
package podman

import (
	"io"
	"os"

	"github.com/sirupsen/logrus"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// Config locates Podman.
type Config struct {
	Host    string   // a URL such as unix:///run/podman/podman.sock or ssh://; "" goes by the environment, containers.conf and the usual sockets
	Environ []string // nil is os.Environ()
	// Service is the program podman, and global arguments for it: a service of our own is started
	// from it, whatever else answers. If nil, that is only done where nothing answers.
	Service []string
	// Dir will hold files for the engine, which stay. "" is a temporary directory.
	Dir string
}

// Engine is a client of Podman. It implements [container.Engine].
type Engine struct {
	config Config
	env    environ
	sem    chan struct{} // semaphore: held while connecting or closing; guards conn, temp and closed
	conn   *connection
	temp   string // a directory, if one was needed
	closed bool
	own    ownContainers
}

var _ container.Engine = (*Engine)(nil)

// New returns the engine. Nothing is connected before it is used.
func New(c Config) container.Engine {
	// The library warns of services by way of logrus's global logger, and nothing else of ours uses that: its lines would
	// stand between ours on standard error, and we say ourselves what matters to us.
	logrus.SetOutput(io.Discard)
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	return &Engine{config: c, env: newEnviron(c.Environ), sem: make(chan struct{}, 1)}
}

// Name implements [container.Engine].
func (e *Engine) Name() string { return "podman" }

// Close implements [container.Engine]. A service of our own ends; its containers that still run do not.
func (e *Engine) Close() error {
	e.sem <- struct{}{}
	defer func() { <-e.sem }()
	e.closed = true
	if e.conn != nil {
		e.conn.close()
		e.conn = nil
	}
	if e.temp != "" {
		defer func() { e.temp = "" }()
		return os.RemoveAll(e.temp)
	}
	return nil
}
