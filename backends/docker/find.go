package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	contextdocker "github.com/docker/cli/cli/context/docker"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// endpoint is the address of a Docker Engine, with the settings for reaching it.
type endpoint struct {
	contextdocker.Endpoint
	login *settings // credentials for registries
}

// findEndpoint searches in the order of Docker's own command: our configuration, DOCKER_HOST, the context of
// DOCKER_CONTEXT or of the configuration file, and the usual sockets, of which the first that answers counts.
func findEndpoint(ctx context.Context, c Config) (endpoint, error) {
	s, err := readSettings(c.Environ)
	if err != nil {
		return endpoint{}, err
	}
	p := endpoint{login: s}
	name := cmp.Or(lookupVariable(c.Environ, "DOCKER_CONTEXT"), s.CurrentContext)
	host := cmp.Or(c.Host, lookupVariable(c.Environ, "DOCKER_HOST"))
	switch {
	case host != "":
		p.Host = host
		if strings.HasPrefix(host, "tcp://") || strings.HasPrefix(host, "https://") {
			p.TLSData, err = s.certificates()
		}
	case name != "" && name != "default":
		p.Endpoint, err = s.context(name)
	default:
		p.Host, err = findSocket(ctx, c.Environ)
		return p, err
	}
	if err != nil {
		return endpoint{}, err
	}
	return p, p.check(ctx)
}

// check refuses invalid addresses, and Unix sockets that don't answer: the library would hide the reason.
func (p endpoint) check(ctx context.Context) error {
	scheme, path, ok := strings.Cut(p.Host, "://")
	if !ok || path == "" {
		return fmt.Errorf("the address of Docker, %q, is not a URL such as unix:///run/docker.sock", p.Host)
	}
	switch scheme {
	case "unix":
		if err := probeSocket(ctx, path); err != nil {
			return refuseSocket(path, err)
		}
	case "ssh":
		_, err := sshArgs(p.Host)
		return err
	case "tcp", "http", "https", "npipe":
	default:
		return fmt.Errorf("the address of Docker, %q, has an unknown scheme: use unix, tcp, ssh, http, https or npipe", p.Host)
	}
	return nil
}

// findSocket returns the first of Docker's default sockets that answers.
func findSocket(ctx context.Context, environ []string) (string, error) {
	if runtime.GOOS == "windows" {
		return "npipe:////./pipe/docker_engine", nil
	}
	var worst error
	var where string
	for _, path := range backends.DockerSockets(func(name string) string { return lookupVariable(environ, name) }, os.Getuid()) {
		err := probeSocket(ctx, path)
		if err == nil {
			return "unix://" + path, nil
		}
		// Report the socket that is closest to working.
		if worst == nil || closeness(err) > closeness(worst) {
			worst, where = err, path
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return "", refuseSocket(where, worst)
}

// probeSocket connects to a Unix socket and disconnects.
func probeSocket(ctx context.Context, path string) error {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return c.Close()
}

// closeness ranks the reasons why a socket does not answer.
func closeness(err error) int {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return 3
	case errors.Is(err, syscall.ECONNREFUSED):
		return 2
	case errors.Is(err, fs.ErrNotExist):
		return 0
	}
	return 1
}

// lookupVariable returns the value of an environment variable; the last of several counts.
func lookupVariable(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}
