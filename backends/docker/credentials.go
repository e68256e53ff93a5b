package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/docker/cli/cli/config/credentials"
	helpers "github.com/docker/docker-credential-helpers/credentials"
	"github.com/moby/moby/api/types/registry"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// hub is the key under which Docker keeps the credentials for docker.io.
const hub = "https://index.docker.io/v1/"

// serverKey returns the key of a registry.
func serverKey(domain string) string {
	if domain == "docker.io" || domain == "index.docker.io" {
		return hub
	}
	return domain
}

// registries lists the registries with stored credentials or a credential helper of their own.
func (s *settings) registries() []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(s.AuthConfigs)), maps.Keys(s.CredentialHelpers))
	for i, key := range all {
		all[i] = credentials.ConvertToHostname(key)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// credentials returns the user's credentials for a registry: from the registry's own helper, else from the default
// helper, else from the configuration file. The zero value means none.
func (s *settings) credentials(ctx context.Context, name string) (registry.AuthConfig, error) {
	key := serverKey(name)
	if helper := cmp.Or(s.CredentialHelpers[key], s.CredentialHelpers[name], s.CredentialsStore); helper != "" {
		a, err := s.askHelper(ctx, helper, key)
		if err != nil {
			return a, fmt.Errorf("ask docker-credential-%s for the account at %s: %w", helper, name, err)
		}
		if a != (registry.AuthConfig{}) {
			return a, nil
		}
	}
	a, err := credentials.NewFileStore(s).Get(key)
	c := registry.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if c != (registry.AuthConfig{}) {
		c.ServerAddress = key
	}
	return c, err
}

// askHelper runs docker-credential-NAME get. A helper without an entry is not an error. The library's own call
// would pass our whole environment to the helper, and put its output, which may be a secret, into the error.
func (s *settings) askHelper(ctx context.Context, name, server string) (registry.AuthConfig, error) {
	helper, err := engine.FindProgram(lookupVariable(s.environ, "PATH"), "docker-credential-"+name)
	if err != nil {
		return registry.AuthConfig{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, helper, helpers.ActionGet)
	cmd.Stdin, cmd.Env, cmd.WaitDelay = strings.NewReader(server), s.environ, time.Second
	answer, err := cmd.Output()
	if err != nil && helpers.IsErrCredentialsNotFoundMessage(string(answer)) {
		return registry.AuthConfig{}, nil
	}
	if err != nil {
		return registry.AuthConfig{}, err
	}
	var a helpers.Credentials
	if json.Unmarshal(answer, &a) != nil {
		return registry.AuthConfig{}, errors.New("its answer is not JSON")
	}
	if a.Username == "<token>" {
		return registry.AuthConfig{IdentityToken: a.Secret, ServerAddress: server}, nil
	}
	return registry.AuthConfig{Username: a.Username, Password: a.Secret, ServerAddress: server}, nil
}
