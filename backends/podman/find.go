package podman

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.podman.io/common/pkg/config"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// endpoint is the address of a Podman service.
type endpoint struct {
	url      string
	identity string // for ssh: a private key file
	machine  bool   // a virtual machine made by Podman, whose ssh key is not in known_hosts
	named    bool   // configured: if it does not answer, no other is tried
	source   string // the setting that names it, for people
	command  string // that starts a service of our own
}

// environ is an environment as a map.
type environ map[string]string

func newEnviron(all []string) environ {
	e := environ{}
	for _, one := range all {
		if name, value, ok := strings.Cut(one, "="); ok {
			e[name] = value
		}
	}
	return e
}

func (env environ) get(name string) string { return env[name] }

// findEndpoints returns the endpoints of Podman by the rules of its own command: the first is used if it is named,
// else the first that answers.
func (e *Engine) findEndpoints() ([]endpoint, error) {
	if e.config.Host != "" {
		return []endpoint{{url: e.config.Host, identity: e.env["CONTAINER_SSHKEY"], named: true, source: "the configuration"}}, nil
	}
	if host := e.env["CONTAINER_HOST"]; host != "" {
		return []endpoint{{url: host, identity: e.env["CONTAINER_SSHKEY"], named: true, source: "CONTAINER_HOST"}}, nil
	}
	if p, ok, err := e.env.connection(runtime.GOOS); err != nil || ok {
		return []endpoint{p}, err
	}
	if runtime.GOOS == "windows" {
		return nil, nil
	}
	return []endpoint{{url: "unix://" + backends.PodmanSocket(e.env.get, os.Geteuid())}}, nil
}

// path returns the socket path of a unix URL, "" for others.
func (p endpoint) path() string {
	u, err := url.Parse(p.url)
	if err != nil || u.Scheme != "unix" {
		return ""
	}
	// The library reads unix://relative/path as an absolute path.
	return filepath.Join("/", u.Host, u.Path)
}

// redacted returns the URL for people, without a password.
func (p endpoint) redacted() string {
	u, err := url.Parse(p.url)
	if err != nil {
		return "a URL that can't be read"
	}
	return u.Redacted()
}

// ownService is the source of an endpoint where our own service listens.
const ownService = "our own service"

// connection returns the active connection. On Linux, Podman's own command runs containers locally unless "remote"
// is set or CONTAINER_CONNECTION names a connection, and so do we: a configured connection to another machine does
// not mean that programs are to be sent there.
func (env environ) connection(system string) (endpoint, bool, error) {
	conf, err := config.New(nil)
	if err != nil {
		return endpoint{}, false, fmt.Errorf("read podman's configuration: %w", err)
	}
	all, err := conf.GetAllConnections()
	if err != nil {
		return endpoint{}, false, fmt.Errorf("read podman's connections: %w", err)
	}
	name := env["CONTAINER_CONNECTION"]
	if name == "" && (len(all) == 0 || system == "linux" && !conf.Engine.Remote) {
		return endpoint{}, false, nil
	}
	d, err := conf.GetConnection(name, name == "")
	if err != nil {
		return endpoint{}, false, fmt.Errorf("%w: see podman system connection list", err)
	}
	p := endpoint{url: d.URI, identity: d.Identity, machine: d.IsMachine, named: true, source: fmt.Sprintf("podman's connection %q", d.Name)}
	if key := env["CONTAINER_SSHKEY"]; key != "" {
		p.identity = key
	}
	return p, true, nil
}

// configDir returns the user's configuration directory.
func (env environ) configDir() string {
	return cmp.Or(env["XDG_CONFIG_HOME"], filepath.Join(env.home(), ".config"))
}

func (env environ) home() string {
	if home := env["HOME"]; home != "" {
		return home
	}
	home, _ := os.UserHomeDir()
	return home
}
