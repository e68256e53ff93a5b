package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"testing"
)

// Docker returns the URL of this process's own dockerd, and skips the test if there is none.
func Docker(t testing.TB) string {
	t.Helper()
	return engineOf(t, "docker").url()
}

// Podman returns the URL of this process's own podman service, rootless if we are not root. It skips the test if
// there is none.
func Podman(t testing.TB) string {
	t.Helper()
	return engineOf(t, "podman").url()
}

func (e *engine) url() string {
	if e.address != "" {
		return "ssh://" + e.address
	}
	return "unix://" + e.dir + "/" + e.kind + ".sock"
}

// checkMachine returns the reason why this machine can't run an engine, nil if it can.
func checkMachine(kind string) error {
	for _, name := range map[string][]string{"docker": {"dockerd"}, "podman": {"podman"}, "ssh docker": {"sshd", "ssh-keygen", "docker"},
		"ssh podman": {"sshd", "ssh-keygen"}}[kind] {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed", name)
		}
	}
	if os.Geteuid() == 0 || strings.HasPrefix(kind, "ssh") {
		return nil
	}
	if kind == "docker" {
		return errors.New("only root can start a dockerd")
	}
	return rootless()
}

// rootless returns the reason why an ordinary user can't run containers here.
func rootless() error {
	if _, err := exec.LookPath("newuidmap"); err != nil {
		return errors.New("newuidmap is not installed")
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		text, _ := os.ReadFile(file)
		if !bytes.HasPrefix(text, []byte(me.Username+":")) && !bytes.Contains(text, []byte("\n"+me.Username+":")) {
			return fmt.Errorf("%s has no range for %s", file, me.Username)
		}
	}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("no user namespaces: %v %s", err, out)
	}
	return nil
}

// engineCommand returns the command that starts an engine. Each has its own storage, sockets and locks.
func engineCommand(kind, dir string) []string {
	switch kind {
	case "docker":
		return []string{"dockerd", "--data-root", dir + "/data", "--exec-root", dir + "/exec", "--pidfile", dir + "/pid", "--config-file",
			dir + "/daemon.json",
			"--host", "unix://" + dir + "/docker.sock", "--cgroup-parent", cgroupParent(dir),
			"--iptables=false", "--ip6tables=false", "--bridge=none"} // changes nothing of the host's network
	case "podman":
		return append(podman(dir), "system", "service", "--time=0", "unix://"+dir+"/podman.sock")
	}
	return []string{"sshd", "-D", "-e", "-f", dir + "/sshd_config"}
}

// podman returns the program with its global options. Without them, a podman's locks and state are in directories
// that all podmans of a user share.
func podman(dir string) []string {
	args := []string{"podman", "--root", dir + "/root", "--runroot", dir + "/run", "--tmpdir", dir + "/tmp",
		"--network-config-dir", dir + "/net", "--events-backend=file"}
	if os.Geteuid() != 0 {
		// The default may be vfs, which copies the image for each container.
		args = append(args, "--storage-driver=overlay", "--cgroup-manager=cgroupfs")
	}
	if _, err := exec.LookPath("runc"); err == nil {
		args = append(args, "--runtime=runc") // crun refuses hosts with both cgroup versions
	}
	return args
}

// cgroupParent names an engine's cgroup so that it can't be confused with a sandbox's.
func cgroupParent(dir string) string { return strings.TrimPrefix(dir, "/tmp") }
