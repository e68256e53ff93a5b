package enginetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"testing"
)

// SSH returns a URL that reaches an engine of this process through its own sshd on the loopback address, and the
// environment in which ssh, and compatible libraries, find the key and known host.
func SSH(t testing.TB, engineURL string) (url string, env []string) {
	t.Helper()
	target := engineAt(t, engineURL)
	e := engineOf(t, "ssh "+target.kind)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	url = "ssh://" + me.Username + "@" + strings.TrimPrefix(e.url(), "ssh://")
	if target.kind == "podman" {
		url += target.dir + "/podman.sock" // Docker's program on the other side knows the path
	}
	return url, []string{
		"HOME=" + e.dir + "/home", "CONTAINER_SSHKEY=" + e.dir + "/key",
		"PATH=" + e.dir + "/bin:" + os.Getenv("PATH"),
	}
}

// configureSSH writes the files for sshd and ssh into an engine's directory.
func (e *engine) configureSSH() error {
	target := mine.engines[strings.TrimPrefix(e.kind, "ssh ")]
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e.address = free.Addr().String()
	free.Close() // for sshd
	host, port, _ := strings.Cut(e.address, ":")
	for _, dir := range []string{"/home", "/home/.ssh", "/bin"} {
		if err := os.Mkdir(e.dir+dir, 0o700); err != nil {
			return err
		}
	}
	for _, key := range []string{"/host_key", "/key"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", e.dir+key).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %v %s", err, out)
		}
	}
	public, err := os.ReadFile(e.dir + "/host_key.pub")
	if err != nil {
		return err
	}
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		return err
	}
	// ssh finds its files by the user's passwd entry, not by HOME.
	for name, text := range map[string]string{
		"/sshd_config": fmt.Sprintf("ListenAddress %s\nPort %s\nHostKey %[3]s/host_key\nAuthorizedKeysFile %[3]s/key.pub\nPidFile "+
			"none\nUsePAM no\nStrictModes no\n"+
			"PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\nMaxSessions 100\nSetEnv DOCKER_HOST=%s\n", host, port, e.dir, target.url()),
		"/home/.ssh/known_hosts": fmt.Sprintf("[%s]:%s %s", host, port, public),
		"/home/.ssh/config": fmt.Sprintf("Host *\n  IdentityFile %[1]s/key\n  IdentitiesOnly yes\n  UserKnownHostsFile "+
			"%[1]s/home/.ssh/known_hosts\n", e.dir),
		"/bin/ssh": fmt.Sprintf("#!/bin/sh\nexec %s -F %s/home/.ssh/config \"$@\"\n", ssh, e.dir),
	} {
		if err := os.WriteFile(e.dir+name, []byte(text), 0o700); err != nil {
			return err
		}
	}
	return nil
}
