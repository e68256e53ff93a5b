// Package podman is a client of Podman's service, 4.0 and later.
//
// Library: podman/v5/pkg/bindings is Podman's own client. Only its root package is used, which makes the connection
// (Unix socket or ssh). Those for containers, images, networks and the system (v5.8.4, built without C) add 8.6 MB to
// the stripped binary, 50 modules and 3 ms to each start, and need golang.org/x/crypto/openpgp, which x/crypto v0.59
// has no more. moby/moby/client speaks Docker's API over that connection, and containerd/errdefs tells errors of both
// APIs apart. common/pkg/config, which bindings has already, reads containers.conf, and docker/cli the files with
// credentials.
package podman

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
)

// Config locates Podman.
type Config struct {
	Host    string   // a URL such as unix:///run/podman/podman.sock or ssh://; "" goes by the environment, containers.conf and the usual sockets
	Environ []string // nil is os.Environ()
	// Service is the program podman, and global arguments for it: a service of our own is started
	// from it, whatever else answers. If nil, that is only done where nothing answers.
	Service []string
	// Dir will hold files for the engine, which stay, and where nobody else may write.
	Dir string
}

// Engine is a client of Podman. It implements [container.Engine].
type Engine struct {
	client.Client
	config Config
	env    environ
	sem    chan struct{} // semaphore: held while connecting or closing; guards conn and closed
	conn   *connection
	closed bool
	since  time.Time
}

// New returns the engine. Nothing is connected before it is used.
func New(c Config) container.Engine {
	// The library warns of services by way of logrus's global logger, and nothing else of ours uses that: its lines would
	// stand between ours on standard error, and we say ourselves what matters to us.
	logrus.SetOutput(io.Discard)
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	e := &Engine{config: c, env: newEnviron(c.Environ), sem: make(chan struct{}, 1), since: time.Now()}
	e.Client = client.Client{Connect: e.clientLink, Lost: e.forgetConnection, Explain: e.explain}
	return e
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
	return nil
}

// profileFile returns a file with a seccomp profile, which Podman itself reads while it makes a container. The name is the
// hash of the content, and the file stays: so there is one for each version of us, and none more for a server that is
// killed. It is no secret, and an engine of another user must be able to read it.
func (e *Engine) profileFile(text string) (string, error) {
	dir := e.config.Dir
	if dir == "" {
		return "", errors.New("no directory for files: this is our bug")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	name := filepath.Join(dir, "seccomp-"+hex.EncodeToString(sum[:8])+".json")
	if there, err := os.ReadFile(name); err == nil && string(there) == text {
		return name, nil
	}
	return name, statefile.Replace(name, "podman", []byte(text), 0o644)
}
