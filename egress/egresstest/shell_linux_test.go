package egresstest

import (
	"net"
	"os"
	"os/exec"
)

// shell starts a real sshd on port 22 of the test's internet, one process per connection. It returns the paths of a
// key that may log in as root to run a single command, and of the known hosts.
func (w *world) shell() (key, known string) {
	w.Helper()
	requirePrograms(w.T, "sshd", "ssh", "ssh-keygen")
	for _, name := range []string{"id", "hostkey"} {
		command(w.T, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", w.path(name))
	}
	pub, err := os.ReadFile(w.path("hostkey.pub"))
	if err != nil {
		w.Fatal(err)
	}
	known = w.write("known_hosts", "ssh.example.test "+string(pub))
	config := w.write("sshd_config", "HostKey "+w.path("hostkey")+"\nAuthorizedKeysFile "+w.path("id.pub")+
		"\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nForceCommand echo over ssh\n")
	if err := os.Mkdir("/run/sshd", 0o755); err == nil { // if sshd has never run here
		w.Cleanup(func() { os.Remove("/run/sshd") })
	}
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		w.Fatal(err)
	}
	l := w.internet.listen(w.T, "tcp", ":22")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.record("bytes", serverOf(c), "ssh")
			go func() {
				defer c.Close()
				f, err := c.(*net.TCPConn).File()
				if err != nil {
					return
				}
				defer f.Close()
				cmd := exec.Command(sshd, "-i", "-f", config)
				cmd.Stdin, cmd.Stdout = f, f
				cmd.Run()
			}()
		}
	}()
	return w.path("id"), known
}
