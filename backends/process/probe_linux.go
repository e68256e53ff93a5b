package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

var noLandlock = &backends.Refusal{
	Layer:  backends.LayerLandlock,
	Reason: "this kernel has no Landlock, or it is not switched on",
	Remedy: "use a kernel of 5.13 or newer with lsm=landlock,... on its command line",
}

// Probe implements [backends.Backend]. It starts a sandbox, which is the only sure way to know
// what the host gives, and closes it.
func (b *Backend) Probe(ctx context.Context, spec backends.Spec) (backends.Probe, error) {
	p := backends.Probe{Backend: b.Name()}
	for _, language := range backends.Languages {
		p.Runtimes = append(p.Runtimes, b.probeRuntime(ctx, language))
	}
	result, err := b.try(ctx, spec)
	if err != nil {
		p.Why = err.Error()
		p.Layers = backends.NotTried(err)
		return p, nil
	}
	for _, l := range result.Contained.Layers {
		probe := backends.LayerProbe{Layer: l}
		if !l.InForce {
			probe.Remedy = remedies[l.Name]
		}
		p.Layers = append(p.Layers, probe)
	}
	p.Usable = true
	return p, nil
}

// try runs the shell's no-op in a sandbox.
func (b *Backend) try(ctx context.Context, spec backends.Spec) (backends.Result, error) {
	spec.ID, spec.Language = "probe", "shell"
	s, err := b.Start(ctx, spec)
	if err != nil {
		return backends.Result{}, err
	}
	defer s.Close()
	return s.Exec(ctx, backends.Command{Args: []string{"bash", "-c", ":"}}, backends.Streams{})
}

func (b *Backend) probeRuntime(ctx context.Context, language string) backends.Runtime {
	r, err := b.runtime(ctx, language)
	if err != nil {
		return backends.Runtime{Name: language, Why: err.Error()}
	}
	version, err := runtimes.Version(ctx, r)
	if err != nil {
		return backends.Runtime{Name: language, Why: err.Error()}
	}
	return backends.Runtime{Name: language, Path: r.Path, Version: version, Why: r.Why}
}

// remedies say what to type where a layer can't be had.
var remedies = map[string]string{
	backends.LayerUser:     "use --profile hardened: this profile has no namespaces",
	backends.LayerLandlock: noLandlock.Remedy,
	backends.LayerSeccomp:  "use a kernel with CONFIG_SECCOMP_FILTER",
	backends.LayerTime:     "use a kernel of 5.6 or newer with CONFIG_TIME_NS",
	backends.LayerCgroup:   "run it as a service with Delegate=yes, or with systemd-run --user --scope -p Delegate=yes",
}

// refusal is the error for a layer that policy requires and that is not in force.
func refusal(layer, why string) error {
	return &backends.Refusal{Layer: layer, Reason: why, Remedy: remedies[layer]}
}

// diagnose turns a failed start into a refusal that says what the host lacks.
func (b *Backend) diagnose(s *sandbox, err error) error {
	if s.shared() || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var errno unix.Errno
	var namespace *namespaceError
	if !errors.As(err, &namespace) || !errors.As(err, &errno) {
		return err
	}
	refuse := func(reason, remedy string) error {
		return &backends.Refusal{Layer: backends.LayerUser, Reason: reason + ": " + err.Error(),
			Remedy: remedy + ", or choose the weaker containment by name, from which names of the host's files and processes are not hidden: --profile landlock"}
	}
	switch {
	case number("/proc/sys/user/max_user_namespaces") == "0":
		return refuse("user namespaces are switched off", "sudo sysctl -w user.max_user_namespaces=15000")
	case number("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return refuse("user namespaces are switched off for ordinary users", "sudo sysctl -w kernel.unprivileged_userns_clone=1")
	case !b.root && number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return refuse("AppArmor keeps user namespaces from programs without a profile", appArmorRemedy())
	case errno == unix.ENOSPC || errno == unix.EUSERS:
		return refuse("there are too many namespaces", "raise user.max_user_namespaces, user.max_net_namespaces and user.max_mnt_namespaces")
	case errno == unix.EPERM || errno == unix.EACCES || errno == unix.ENOSYS:
		return refuse("this host does not let us make namespaces (are we inside a container?)",
			"in Docker, start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined")
	}
	return err
}

func number(file string) string {
	b, _ := os.ReadFile(file)
	return strings.TrimSpace(string(b))
}

// appArmorRemedy is the profile that lets just this program make user namespaces, as Ubuntu's
// release notes describe it.
func appArmorRemedy() string {
	exe, err := os.Executable()
	if err != nil {
		exe = "/usr/local/bin/sandboxmcp"
	}
	return fmt.Sprintf("printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile sandboxmcp %s flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/sandboxmcp && sudo apparmor_parser -r /etc/apparmor.d/sandboxmcp", exe)
}
