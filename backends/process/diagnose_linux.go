package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// noLandlock is the error of a start on a kernel without Landlock.
var noLandlock = &backends.Refusal{
	Layer:  backends.LayerLandlock,
	Reason: "this kernel has no Landlock, or it is not enabled",
	Remedy: remedy.Text{"use a kernel of 5.13 or newer with lsm=landlock,... on its command line"},
}

// remedies are the operator's steps to get a missing layer.
var remedies = map[string]remedy.Text{
	backends.LayerUser:     {"use ", remedy.Profile.With("hardened"), ": this profile has no namespaces"},
	backends.LayerLandlock: noLandlock.Remedy,
	backends.LayerSeccomp:  {"use a kernel with CONFIG_SECCOMP_FILTER"},
	backends.LayerTime:     {"use a kernel of 5.6 or newer with CONFIG_TIME_NS"},
	backends.LayerCgroup:   {"run it as a service with Delegate=yes, or with systemd-run --user --scope -p Delegate=yes"},
}

// refusal returns the error for a layer that policy requires and that is missing.
func refusal(layer, why string) error {
	return &backends.Refusal{Layer: layer, Reason: why, Remedy: remedies[layer]}
}

// diagnose converts a failed start of a sandbox, or of a program in it, into a refusal that names the host's
// deficiency.
func (b *Backend) diagnose(s *Sandbox, err error) error {
	var errno unix.Errno
	if err == nil || s.inContainer || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &errno) {
		return err
	}
	if refused := cmp.Or(refuseWithheld(err), refuseUnmapped(s, err)); refused != nil {
		return refused
	}
	if s.landlockOnly || !errors.As(err, new(*namespaceError)) {
		return err
	}
	refuse := func(reason string, do ...any) error {
		return &backends.Refusal{Layer: backends.LayerUser, Reason: reason + ": " + err.Error(), Remedy: append(do,
			", or choose the weaker profile, which does not hide the names of the host's files and processes: ", remedy.Profile.With("landlock"))}
	}
	switch {
	case readNumber("/proc/sys/user/max_user_namespaces") == "0":
		return refuse("user namespaces are disabled", remedy.Command.With("sudo sysctl -w user.max_user_namespaces=15000"))
	case readNumber("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return refuse("user namespaces are disabled for ordinary users", remedy.Command.With("sudo sysctl -w kernel.unprivileged_userns_clone=1"))
	case !b.root && readNumber("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return refuse("AppArmor denies user namespaces to programs without a profile", remedy.Command.With(appArmorRemedy()))
	case errno == unix.ENOSPC || errno == unix.EUSERS:
		return refuse("there are too many namespaces", "raise user.max_user_namespaces, user.max_net_namespaces and user.max_mnt_namespaces")
	case errno == unix.EINVAL && isForkError(err):
		return refuse("this kernel lacks a kind of namespace", slices.Clone(remedies[backends.LayerTime])...)
	case b.root && errno == unix.EPERM && !isAdministrator():
		return refuse("root lacks CAP_SYS_ADMIN here", "start it as an ordinary user, who needs none: in Docker, with --user 1000:1000 and "+
			dockerOptions)
	case errno == unix.EPERM || errno == unix.EACCES || errno == unix.ENOSYS:
		return refuse("this host forbids new namespaces (is this a container?)", "in Docker, start it with "+dockerOptions)
	}
	return err
}

// dockerOptions are the options that permit the system calls of sandboxes in a Docker container.
const dockerOptions = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"

// layerSteps are steps that every kernel permits at that point of a plan, by prefix, and their layers.
var layerSteps = []struct{ step, layer string }{
	{"pivot_root", backends.LayerMount},
	{"landlock_", backends.LayerLandlock},
	{"seccomp", backends.LayerSeccomp},
	{"prctl(PR_SET_NO_NEW_PRIVS", backends.LayerNNP},
	{"prctl(PR_SET_SECUREBITS", backends.LayerCaps},
	{"prctl(PR_CAP", backends.LayerCaps},
	{"prctl(", ""},
	{"capset", backends.LayerCaps},
}

// refuseWithheld returns a refusal if this process's environment denied a call, otherwise nil.
func refuseWithheld(err error) *backends.Refusal {
	failed, is := errors.AsType[*stepError](err)
	if !is || failed.errno != unix.EPERM && failed.errno != unix.EACCES && failed.errno != unix.ENOSYS {
		return nil
	}
	for _, w := range layerSteps {
		if !strings.HasPrefix(failed.step, w.step) {
			continue
		}
		r := &backends.Refusal{Layer: w.layer, Reason: err.Error() + ": " + likelyCause(), Remedy: remedy.Text{withheldRemedy}}
		if w.layer == backends.LayerMount { // the weaker profile also has the other layers
			r.Remedy = append(r.Remedy, ", or choose the weaker profile: ", remedy.Profile.With("landlock"))
		}
		return r
	}
	return nil
}

// refuseUnmapped returns a refusal if a file system does not support mapping its owners, otherwise nil.
func refuseUnmapped(s *Sandbox, err error) *backends.Refusal {
	failed, is := errors.AsType[*stepError](err)
	if !is {
		return nil
	}
	for _, o := range s.owned {
		if failed.step != mapOwner+o.host || failed.errno != unix.EINVAL && failed.errno != unix.EPERM {
			continue
		}
		return backends.Refuse(fmt.Sprintf("%s can't be mounted writable for the unprivileged user of root's sandboxes: its file system, %s, "+
			"does not support ID-mapped mounts (%v)",
			o.host, cmp.Or(backends.FileSystem(o.host), "of an unknown kind"), err),
			"start sandboxmcp as the ordinary user who owns it, or use a directory on ext4, xfs or btrfs")
	}
	return nil
}

// withheldRemedy is the operator's remedy for a denied call.
const withheldRemedy = "in a systemd unit, remove SystemCallFilter=; in Docker, start it with " + dockerOptions

// likelyCause returns the likely reason why a supported call is denied.
func likelyCause() string {
	if text, _ := os.ReadFile("/proc/self/status"); procfs.StatusField(text, "Seccomp") == "2" {
		return "a seccomp filter that sandboxmcp inherited refuses it"
	}
	return "a security module of this host refuses it"
}

// isAdministrator reports whether this process has CAP_SYS_ADMIN.
func isAdministrator() bool {
	text, _ := os.ReadFile("/proc/self/status")
	caps, _ := strconv.ParseUint(procfs.StatusField(text, "CapEff"), 16, 64)
	return caps>>unix.CAP_SYS_ADMIN&1 == 1
}

// readNumber returns the content of a file that contains one number, "" if it can't be read.
func readNumber(file string) string {
	b, _ := os.ReadFile(file)
	return strings.TrimSpace(string(b))
}

// appArmorRemedy returns the command that installs a profile which permits only this program to make user
// namespaces, as Ubuntu's release notes describe it.
func appArmorRemedy() string {
	exe, err := os.Executable()
	if err != nil {
		exe = "/usr/local/bin/sandboxmcp"
	}
	return fmt.Sprintf("printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile sandboxmcp %s flags=(unconfined) {\\n "+
		" userns,\\n}\\n' | sudo tee /etc/apparmor.d/sandboxmcp && sudo apparmor_parser -r /etc/apparmor.d/sandboxmcp", exe)
}
