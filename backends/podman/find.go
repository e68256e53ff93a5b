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
	identity string // of ssh: a file with a private key
	machine  bool   // a virtual machine that Podman made, whose ssh key need not be known
	named    bool   // configured: if it does not answer, nothing else is tried
	source   string // who named it, for people
	command  string // of a service of our own
}

// environ is an environment, by names.
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

// findEndpoints returns the endpoints of Podman, by the rules of its own command: the first is to be used if it is named, else
// the first that answers.
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

// path is the file of a unix URL, "" for others.
func (p endpoint) path() string {
	u, err := url.Parse(p.url)
	if err != nil || u.Scheme != "unix" {
		return ""
	}
	// unix://relative/path is read as an absolute one, as the library does.
	return filepath.Join("/", u.Host, u.Path)
}

// redacted is the URL for people, without a password.
func (p endpoint) redacted() string {
	u, err := url.Parse(p.url)
	if err != nil {
		return "a URL that can't be read"
	}
	return u.Redacted()
}

// ownService is the source of a place where a service of ours listens.
const ownService = "our own service"

// connection is the active connection. On Linux, Podman's own command runs containers here unless "remote" is set or
// CONTAINER_CONNECTION names one, and so do we: a configured connection to another machine does not mean that programs
// are to be sent there.
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

// config returns the user's directory for settings.
func (env environ) config() string {
	return cmp.Or(env["XDG_CONFIG_HOME"], filepath.Join(env.home(), ".config"))
}

func (env environ) home() string {
	if home := env["HOME"]; home != "" {
		return home
	}
	home, _ := os.UserHomeDir()
	return home
}
