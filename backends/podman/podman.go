// Package podman is a client of Podman's service, 4.0 and later.
//
// Library: podman/v5/pkg/bindings is Podman's own client. Only its root package is used, which opens the connection
// (Unix socket or ssh). Its packages for containers, images, networks and the system (v5.8.4, built without C)
// would add 8.6 MB to the stripped binary, 50 modules and 3 ms to each start, and need golang.org/x/crypto/openpgp,
// which x/crypto v0.59 no longer has. moby/moby/client speaks Docker's API over that connection, and
// containerd/errdefs classifies errors of both APIs. common/pkg/config, which bindings imports anyway, reads
// containers.conf, and docker/cli the files with credentials.
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
	Host    string   // URL such as unix:///run/podman/podman.sock or ssh://; "" searches the environment, containers.conf and usual sockets
	Environ []string // nil is os.Environ()
	// Service is the podman program with global arguments: our own service is started from it, even if another one
	// answers. If nil, our own is started only if none answers.
	Service []string
	// Dir holds permanent files for the engine. Nobody else may be able to write there.
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

// New returns the engine. It connects at the first call.
func New(c Config) container.Engine {
	// The library logs warnings through logrus's global logger, which nothing else here uses: they would mix with
	// our lines on standard error, and we report the relevant ones ourselves.
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

// Close implements [container.Engine]. A service of our own ends; its running containers do not.
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

// profileFile returns a file with a seccomp profile, which Podman reads while it creates a container. Its name is
// the hash of its content, and the file stays: so there is one per version of this program, also for servers that
// are killed. It is not a secret, and an engine of another user must be able to read it.
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
