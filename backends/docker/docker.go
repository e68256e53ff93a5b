// Package docker is a client of Docker Engine, 20.10 and later.
//
// Library: moby/moby/client is Docker's own client, and negotiates the version of the API.
package docker

import (
	"context"
	"os"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// Config locates the Docker Engine.
type Config struct {
	Host    string   // a URL such as unix:///run/docker.sock, tcp:// or ssh://; "" goes by the environment, contexts and the usual sockets
	Environ []string // nil is os.Environ()
	// Dir will hold files for containers: the engine only counts as local (Info.Local) if it
	// sees files made there. "" is the directory for temporary files.
	Dir string
}

// New returns the engine. Nothing is connected before it is used.
func New(c Config) container.Engine {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	return &docker{config: c, sem: make(chan struct{}, 1)}
}

// docker implements [container.Engine].
type docker struct {
	config Config
	sem    chan struct{} // semaphore: held while connecting; waiting for it ends with the context
	link   *link         // once connected
}

func (e *docker) Name() string { return "docker" }

// connect returns the connection, which is made once. After an error the next call tries again.
func (e *docker) connect(ctx context.Context) (*link, error) {
	select {
	case e.sem <- struct{}{}:
		defer func() { <-e.sem }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.link == nil {
		p, err := find(ctx, e.config)
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
	err := e.link.Close()
	e.link = nil
	return err
}
