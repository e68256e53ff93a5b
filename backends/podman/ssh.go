package podman

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// checkKey refuses an endpoint for which the library would ask for a password or a passphrase: it reads them from our
// standard input also where that is no terminal, and would eat the protocol that is spoken there.
func (p endpoint) checkKey() error {
	u, err := url.Parse(p.url)
	if err != nil || u.Scheme != "ssh" {
		return nil
	}
	if p.identity != "" {
		return p.encrypted()
	}
	if _, has := u.User.Password(); has || agentHasKeys(os.Getenv("SSH_AUTH_SOCK")) {
		return nil
	}
	return &backends.Refusal{
		Reason: "no key to log in with at " + p.redacted(),
		Remedy: "set CONTAINER_SSHKEY to the file of a private key, or add one to an ssh-agent: ssh-add",
	}
}

func (p endpoint) encrypted() error {
	key, err := os.ReadFile(p.identity)
	if err != nil {
		return &backends.Refusal{Reason: fmt.Sprintf("read the ssh key for %s: %v", p.redacted(), err)}
	}
	_, err = ssh.ParsePrivateKey(key)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return &backends.Refusal{
			Reason: fmt.Sprintf("the ssh key %s has a passphrase, and there is nobody to ask", p.identity),
			Remedy: "ssh-add " + p.identity + ", and name no key",
		}
	}
	return nil
}

// agentHasKeys asks an ssh-agent. Without keys the library would ask for a password.
func agentHasKeys(socket string) bool {
	if socket == "" {
		return false
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	defer c.Close()
	keys, err := agent.NewClient(c).List()
	return err == nil && len(keys) > 0
}
