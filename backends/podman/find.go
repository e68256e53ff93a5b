package podman

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/BurntSushi/toml"

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

// find returns the endpoints of Podman, by the rules of its own command: the first is to be used if it is named, else
// the first that answers.
func (e *Engine) find() ([]endpoint, error) {
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

// destination is a connection in containers.conf or podman-connections.json.
type destination struct {
	URI       string `toml:"uri"`
	Identity  string `toml:"identity"`
	IsMachine bool   `toml:"is_machine"`
}

// containersConf is the part of containers.conf(5) that names connections.
type containersConf struct {
	Engine struct {
		Remote       bool                   `toml:"remote"`
		Active       string                 `toml:"active_service"`
		Destinations map[string]destination `toml:"service_destinations"`
	} `toml:"engine"`
}

// connectionsFile is podman-connections.json, which Podman writes since 5.0.
type connectionsFile struct {
	Connection struct {
		Default     string
		Connections map[string]destination
	}
}

// connection is the active connection. On Linux, Podman's own command runs containers here unless "remote" is set or
// CONTAINER_CONNECTION names one, and so do we: a configured connection to another machine does not mean that programs
// are to be sent there.
func (env environ) connection(system string) (endpoint, bool, error) {
	conf, file, err := env.connections()
	if err != nil {
		return endpoint{}, false, err
	}
	name := env["CONTAINER_CONNECTION"]
	if name == "" && (system != "linux" || conf.Engine.Remote) {
		name = cmp.Or(file.Connection.Default, conf.Engine.Active)
	}
	if name == "" {
		return endpoint{}, false, nil
	}
	d, ok := file.Connection.Connections[name]
	if !ok {
		d, ok = conf.Engine.Destinations[name]
	}
	if !ok {
		return endpoint{}, false, fmt.Errorf("podman has no connection %q: see podman system connection list", name)
	}
	p := endpoint{url: d.URI, identity: d.Identity, machine: d.IsMachine, named: true, source: fmt.Sprintf("podman's connection %q", name)}
	if key := env["CONTAINER_SSHKEY"]; key != "" {
		p.identity = key
	}
	return p, true, nil
}

// connections reads both files. A file that does not exist is empty.
func (env environ) connections() (conf containersConf, file connectionsFile, err error) {
	confs := []string{"/etc/containers/containers.conf", filepath.Join(env.config(), "containers", "containers.conf")}
	if one := env["CONTAINERS_CONF"]; one != "" {
		confs = []string{one}
	}
	for _, name := range confs {
		if _, err := toml.DecodeFile(name, &conf); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return conf, file, fmt.Errorf("read %s: %w", name, err)
		}
	}
	name := cmp.Or(env["PODMAN_CONNECTIONS_CONF"], filepath.Join(filepath.Dir(confs[len(confs)-1]), "podman-connections.json"))
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return conf, file, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return conf, file, err
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
