package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/registry"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// credentials are a registry's entry in the configuration.
type credentials struct {
	Auth          string `json:"auth"` // base64 of user:password
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// hub is the key under which Docker keeps the credentials for docker.io.
const hub = "https://index.docker.io/v1/"

// serverKey returns the key of a registry.
func serverKey(domain string) string {
	if domain == "docker.io" || domain == "index.docker.io" {
		return hub
	}
	return domain
}

// domain returns the registry of a key, which may be a URL.
func domain(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	key, _, _ = strings.Cut(key, "/")
	if key == "index.docker.io" {
		return "docker.io"
	}
	return key
}

// registries lists the registries that have credentials or a helper of their own.
func (s *settings) registries() []string {
	all := map[string]bool{}
	for key := range s.Auths {
		all[domain(key)] = true
	}
	for key := range s.Helpers {
		all[domain(key)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// credentials finds the user's credentials at a registry: from the registry's own helper, else from the helper for all,
// else from the configuration. The zero value means none.
func (s *settings) credentials(ctx context.Context, name string) (registry.AuthConfig, error) {
	helper := s.Store
	for key, h := range s.Helpers {
		if domain(key) == name {
			helper = h
		}
	}
	if helper != "" {
		a, err := s.askHelper(ctx, helper, serverKey(name))
		if err != nil || a != (registry.AuthConfig{}) {
			return a, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Auths)) {
		if domain(key) != name {
			continue
		}
		a, err := s.Auths[key].config(serverKey(name))
		if err != nil {
			err = fmt.Errorf("read the account at %s from Docker's configuration: %w", name, err)
		}
		return a, err
	}
	return registry.AuthConfig{}, nil
}

// config converts credentials for the engine.
func (a credentials) config(server string) (registry.AuthConfig, error) {
	c := registry.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if a.Auth != "" {
		b, err := base64.StdEncoding.DecodeString(a.Auth)
		user, password, ok := strings.Cut(string(b), ":")
		if err != nil || !ok {
			return registry.AuthConfig{}, errors.New("its auth is not the base64 of user:password")
		}
		c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	}
	if c != (registry.AuthConfig{}) {
		c.ServerAddress = server
	}
	return c, nil
}

// helperName matches the names of helpers: each is a part of a file's name.
var helperName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// askHelper runs docker-credential-NAME get. A helper without an entry is no error.
func (s *settings) askHelper(ctx context.Context, name, server string) (registry.AuthConfig, error) {
	const maxAnswer = 64 << 10 // bytes of an answer
	if !helperName().MatchString(name) {
		return registry.AuthConfig{}, fmt.Errorf("ask for the account at %s: a credential helper can't be called %q", server, name)
	}
	helper, err := engine.Program(variable(s.environ, "PATH"), "docker-credential-"+name)
	if err != nil {
		return registry.AuthConfig{}, fmt.Errorf("ask for the account at %s: %w", server, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, helper, "get")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Env, cmd.WaitDelay = strings.NewReader(server), &capped{w: &out, left: maxAnswer}, s.environ, time.Second
	err = cmd.Run()
	answer := strings.TrimSpace(out.String())
	if err != nil && strings.Contains(answer, "credentials not found") {
		return registry.AuthConfig{}, nil
	}
	if err != nil {
		// Its output may be a secret, if it failed half-way.
		return registry.AuthConfig{}, fmt.Errorf("ask docker-credential-%s for the account at %s: %w", name, server, err)
	}
	var a struct{ Username, Secret string }
	if json.Unmarshal([]byte(answer), &a) != nil {
		return registry.AuthConfig{}, fmt.Errorf("ask docker-credential-%s for the account at %s: its answer is not JSON", name, server)
	}
	if a.Username == "<token>" {
		return registry.AuthConfig{IdentityToken: a.Secret, ServerAddress: server}, nil
	}
	return registry.AuthConfig{Username: a.Username, Password: a.Secret, ServerAddress: server}, nil
}

// capped is a writer that fails when too much is written.
type capped struct {
	w    io.Writer
	left int
}

func (c *capped) Write(b []byte) (int, error) {
	if len(b) > c.left {
		return 0, errors.New("too long an answer")
	}
	c.left -= len(b)
	return c.w.Write(b)
}
