package podman

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
)

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
		name = file.Connection.Default
		if name == "" {
			name = conf.Engine.Active
		}
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
	dir := env["XDG_CONFIG_HOME"]
	if dir == "" {
		dir = filepath.Join(env.home(), ".config")
	}
	confs := []string{"/etc/containers/containers.conf", filepath.Join(dir, "containers", "containers.conf")}
	if one := env["CONTAINERS_CONF"]; one != "" {
		confs = []string{one}
	}
	for _, name := range confs {
		if _, err := toml.DecodeFile(name, &conf); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return conf, file, fmt.Errorf("read %s: %w", name, err)
		}
	}
	name := env["PODMAN_CONNECTIONS_CONF"]
	if name == "" {
		name = filepath.Join(filepath.Dir(confs[len(confs)-1]), "podman-connections.json")
	}
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

func (env environ) home() string {
	if home := env["HOME"]; home != "" {
		return home
	}
	home, _ := os.UserHomeDir()
	return home
}
