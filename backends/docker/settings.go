package docker

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	cliconfig "github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	clicontext "github.com/docker/cli/cli/context"
	contextdocker "github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// settings are the configuration of Docker's command (~/.docker/config.json).
type settings struct {
	*configfile.ConfigFile
	dir     string
	environ []string
}

// readSettings reads the user's configuration. A missing file is not an error.
func readSettings(environ []string) (*settings, error) {
	s := &settings{ConfigFile: configfile.New(""), dir: lookupVariable(environ, "DOCKER_CONFIG"), environ: environ}
	if s.dir == "" {
		home := cmp.Or(lookupVariable(environ, "HOME"), lookupVariable(environ, "USERPROFILE"))
		if home == "" {
			return s, nil
		}
		s.dir = filepath.Join(home, ".docker")
	}
	file, err := cliconfig.Load(s.dir)
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("read Docker's configuration: %w", err)
	}
	s.ConfigFile = file
	return s, nil
}

// context returns the address and certificates of a Docker context.
func (s *settings) context(name string) (contextdocker.Endpoint, error) {
	all := store.New(filepath.Join(s.dir, "contexts"), store.NewConfig(nil,
		store.EndpointTypeGetter(contextdocker.DockerEndpoint, func() any { return new(contextdocker.EndpointMeta) })))
	found, err := all.GetMetadata(name)
	if errdefs.IsNotFound(err) {
		return contextdocker.Endpoint{}, backends.Refuse(fmt.Sprintf("there is no Docker context %q", name),
			"list them with docker context ls, and choose one with docker context use NAME")
	}
	var meta contextdocker.EndpointMeta
	if err == nil {
		meta, err = contextdocker.EndpointFromContext(found)
	}
	if err == nil && meta.Host == "" {
		err = errors.New("it has no address of a Docker Engine")
	}
	var e contextdocker.Endpoint
	if err == nil {
		e, err = contextdocker.WithTLSData(all, name, meta)
	}
	if err != nil {
		return e, fmt.Errorf("read Docker context %q: %w", name, err)
	}
	return e, nil
}

// certificates returns those of DOCKER_TLS_VERIFY and DOCKER_CERT_PATH; nil without them. Docker's command does not
// check the server's certificate if only the latter is set. We do: a forgotten variable must not open a root shell
// on a machine's Docker, or connect to an impostor.
func (s *settings) certificates() (*clicontext.TLSData, error) {
	dir := lookupVariable(s.environ, "DOCKER_CERT_PATH")
	if dir == "" && lookupVariable(s.environ, "DOCKER_TLS_VERIFY") == "" {
		return nil, nil
	}
	data := new(clicontext.TLSData)
	for name, to := range map[string]*[]byte{"ca.pem": &data.CA, "cert.pem": &data.Cert, "key.pem": &data.Key} {
		var err error
		if *to, err = os.ReadFile(filepath.Join(cmp.Or(dir, s.dir), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read certificates for Docker: %w", err)
		}
	}
	return data, nil
}
