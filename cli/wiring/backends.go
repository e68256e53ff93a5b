package wiring

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/docker"
	"github.com/sandboxmcp/sandboxmcp/backends/kubernetes"
	"github.com/sandboxmcp/sandboxmcp/backends/podman"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// EngineNames returns the backends that create containers.
func EngineNames() []string { return []string{"podman", "docker"} }

// Engine returns a container engine without connecting to it. It may start other programs: ssh, podman, credential
// helpers.
func Engine(name string, cfg config.Config) container.Engine {
	environ := vault.WithoutSecrets(os.Environ())
	switch name {
	case kubernetes.Name:
		return kubernetes.New(Cluster(cfg))
	case "podman":
		return podman.New(podman.Config{Host: cfg.Containers.Podman, Environ: environ, Dir: cfg.StateDir})
	}
	return docker.New(docker.Config{Host: cfg.Containers.Docker, Environ: environ, Dir: cfg.StateDir})
}

// Backends returns all backends, the configured one first. Only the one that will be used prepares anything: the others
// cost nothing until they are named.
func Backends(cfg config.Config, why Purpose) (all []backends.Backend) {
	begin := cmp.Or(why.Backend, cfg.Backend)
	for _, name := range slices.Concat([]string{cfg.Backend, "process"}, EngineNames(), []string{kubernetes.Name}) {
		if slices.ContainsFunc(all, func(b backends.Backend) bool { return b.Name() == name }) {
			continue
		}
		b := Backend(name, cfg, why)
		if name == begin {
			b.Warm()
		}
		all = append(all, b)
	}
	return all
}

// preparedBackend is a backend that can prepare before it is asked for a sandbox.
type preparedBackend interface {
	backends.Backend
	Warm()
}

// Backend returns the backend of a name.
func Backend(name string, cfg config.Config, why Purpose) preparedBackend {
	if name == "process" {
		c := process.Config{StateDir: cfg.StateDir, Delegate: why.Delegate, Hidden: privatePaths(cfg)}
		var ready warm.Config
		if why.Serve { // a single run needs no pool
			if ready.Ahead = cfg.MaxConcurrent; cfg.Pool {
				ready.Max, ready.Idle = idleSandboxes(cfg.MaxConcurrent), why.Idle
			}
		}
		return warm.New(process.New(c), ready)
	}
	c := container.Config{
		Images: map[string]string{}, Pull: cfg.Containers.Pull, Progress: why.Progress,
		StateDir: cfg.StateDir, Binary: cfg.Containers.Binary, Hidden: privatePaths(cfg),
	}
	for _, l := range config.Languages() {
		c.Images[l] = cfg.Images.ForLanguage(l)
	}
	if why.Serve && cfg.Pool {
		c.Ahead = idleContainers
	}
	b := container.New(Engine(name, cfg), c)
	if name == kubernetes.Name {
		return kubernetes.Backend{Backend: b}
	}
	return withDefaultGPUs{b, cfg.Containers.GPUs}
}

// idleContainers is the number of idle containers of each kind in a server: one for a run, and one for the next while
// another starts.
const idleContainers = 2

// idleSandboxes returns the number of idle process sandboxes, of all kinds together, for a server of that many
// concurrent runs. Language, script name and limits make a kind; if other kinds fill the pool, a program finds none.
// More than 64 do not help in a burst, since refilling uses the same cores.
func idleSandboxes(runs int) int { return max(8, min(2*runs, 64)) }

// policyTime bounds the wait for a network policy to apply to a new pod: networks that enforce policies need one or two
// seconds, and without enforcement each pod waits for all of it.
const policyTime = 3 * time.Second

// Cluster returns the configuration of the backend kubernetes.
func Cluster(cfg config.Config) kubernetes.Config {
	k := cfg.Kubernetes
	return kubernetes.Config{
		Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace, Image: k.Image, RuntimeClass: k.RuntimeClass,
		NodeSelector: splitPairs(k.NodeSelector), PriorityClass: k.PriorityClass, Account: k.Account, NeverPull: cfg.Containers.Pull == "never",
		Overcommit: k.Overcommit,
		Settle:     policyTime,
	}
}

// splitPairs converts a list of KEY=VALUE to a map.
func splitPairs(list []string) map[string]string {
	all := map[string]string{}
	for _, one := range list {
		key, value, _ := strings.Cut(one, "=")
		all[key] = value
	}
	return all
}

// checkContainers returns an error about settings that no container can have. Package config can't check them.
func checkContainers(c config.Containers) error {
	if err := container.CheckGPUs(c.GPUs); err != nil {
		return fmt.Errorf("containers.gpus: %w", err)
	}
	return nil
}

// withDefaultGPUs adds the operator's default graphics processors to sandboxes that request none. An explicit empty list gets
// none.
type withDefaultGPUs struct {
	*container.Backend
	gpus []string
}

// Start implements [backends.Backend].
func (b withDefaultGPUs) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	if spec.GPUs == nil {
		spec.GPUs = b.gpus
	}
	return b.Backend.Start(ctx, spec)
}
