// Package docker is a client of Docker Engine, 20.10 and later.
//
// Libraries: moby/moby/client is Docker's own client, and negotiates the version of the API; docker/cli reads the
// configuration of Docker's command: contexts, certificates, credentials and ssh's addresses.
package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/moby/moby/api/types/system"
	moby "github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Config locates the Docker Engine.
type Config struct {
	Host    string   // URL such as unix:///run/docker.sock, tcp:// or ssh://; "" searches the environment, contexts and usual sockets
	Environ []string // nil is os.Environ()
	// Dir holds files for containers: the engine counts as local (Info.Local) only if it sees files that are made
	// there. "" is the directory for temporary files.
	Dir string
}

// New returns the engine. It connects at the first call.
func New(c Config) container.Engine {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	return &docker{config: c, sem: make(chan struct{}, 1)}
}

// docker implements [container.Engine] through the link that Info connects.
type docker struct {
	config Config
	sem    chan struct{} // semaphore: held while connecting, so that waiting for it can end with the context
	*link
}

func (e *docker) Name() string { return "docker" }

// connect returns the connection, and dials it at the first call. After an error the next call tries again.
func (e *docker) connect(ctx context.Context) (*link, error) {
	select {
	case e.sem <- struct{}{}:
		defer func() { <-e.sem }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.link == nil {
		p, err := findEndpoint(ctx, e.config)
		if err != nil {
			return nil, err
		}
		l, err := dial(ctx, p)
		if err != nil {
			return nil, err
		}
		e.link = l
	}
	return e.link, nil
}

func (e *docker) Close() error {
	e.sem <- struct{}{}
	defer func() { <-e.sem }()
	if e.link == nil {
		return nil
	}
	return e.link.api.Close()
}

// oldest is the API version of Docker 20.10, the first with cgroup namespaces and cgroup v2.
const oldest = "1.41"

// link is a connection to one Docker Engine.
type link struct {
	client.Client
	api      *moby.Client
	endpoint endpoint
	info     system.Info // the engine's answer at connection time
}

// dial connects, agrees on an API version, and refuses servers that are not a usable Docker Engine.
func dial(ctx context.Context, p endpoint) (*link, error) {
	options, err := p.options()
	if err != nil {
		return nil, err
	}
	c, err := moby.New(options...)
	if err != nil {
		return nil, fmt.Errorf("connect to Docker at %s: %w", p.Host, err)
	}
	l := &link{api: c, endpoint: p}
	l.Client = client.Client{Connect: func(context.Context) (client.Link, error) { return client.Link{Client: c}, nil }, Explain: l.explain}
	if err := l.handshake(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return l, nil
}

// handshake checks the engine's version and whether it is Docker.
func (l *link) handshake(ctx context.Context) error {
	ping, err := l.api.Ping(ctx, moby.PingOptions{NegotiateAPIVersion: true})
	if err != nil && ping.APIVersion == "" {
		return l.explain("connect with Docker", err)
	}
	if ping.APIVersion != "" && versions.LessThan(ping.APIVersion, oldest) {
		return backends.Refuse(fmt.Sprintf("the Docker Engine at %s is too old: it speaks version %s of the API, and %s is the oldest that "+
			"can be used", l.endpoint.Host, ping.APIVersion, oldest),
			"install Docker 20.10 or later: https://docs.docker.com/engine/install/")
	}
	if err != nil {
		return l.explain("connect with Docker", err)
	}
	server, err := l.api.ServerVersion(ctx, moby.ServerVersionOptions{})
	if err != nil {
		return l.explain("query Docker's version", err)
	}
	for _, part := range server.Components {
		// Podman implements most of Docker's API, but without Docker's events and errors.
		if strings.Contains(part.Name, "Podman") {
			return backends.Refuse(fmt.Sprintf("the server at %s is Podman", l.endpoint.Host), "choose ", remedy.Backend.With("podman"))
		}
	}
	r, err := l.api.Info(ctx, moby.InfoOptions{})
	if err != nil {
		return l.explain("query Docker", err)
	}
	if r.Info.OSType != "" && r.Info.OSType != "linux" {
		return backends.Refuse(fmt.Sprintf("the Docker Engine at %s runs containers for %s", l.endpoint.Host, r.Info.OSType),
			"switch Docker Desktop to Linux containers")
	}
	l.info = r.Info
	return nil
}

// options returns the library's options for connecting to p.
func (p endpoint) options() ([]moby.Opt, error) {
	if !strings.HasPrefix(p.Host, "ssh://") {
		return p.ClientOpts()
	}
	args, err := sshArgs(p.Host)
	if err != nil {
		return nil, err
	}
	// The host's name only fills the header: ssh connects to the engine.
	return []moby.Opt{moby.WithAPIVersionFromEnv(), moby.WithHost("http://docker.invalid"),
		moby.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialSSH(ctx, args, p.login.environ)
		})}, nil
}
