package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/docker/cli/cli/connhelper/ssh"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// sshArgs returns ssh's command line to the Docker Engine at ssh://[user@]host[:port][/path/of/socket]. It sets
// BatchMode, because nobody can answer ssh's questions.
func sshArgs(address string) ([]string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of Docker is not a URL")
	}
	target, err := ssh.NewSpec(u)
	if err != nil {
		return nil, fmt.Errorf("the address of Docker, %q: %w", u.Redacted(), err)
	}
	remote := []string{"docker", "system", "dial-stdio"}
	if strings.Trim(target.Path, "/") != "" {
		remote = []string{"docker", "--host", "unix://" + target.Path, "system", "dial-stdio"}
	}
	return target.Command([]string{"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"}, remote...)
}

// dialSSH starts an ssh process for one connection to the engine. The library's own would pass our whole
// environment.
func dialSSH(ctx context.Context, args, environ []string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	program, err := engine.FindProgram(lookupVariable(environ, "PATH"), "ssh")
	if err != nil {
		return nil, backends.Refuse("ssh, which the address of Docker needs, is not installed", "install OpenSSH's client")
	}
	cmd := exec.Command(program, args...)
	in, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start ssh: %w", err)
	}
	theirs, out, err := os.Pipe()
	if err != nil {
		in.Close()
		ours.Close()
		return nil, fmt.Errorf("start ssh: %w", err)
	}
	c := &sshConn{in: ours, out: theirs, cmd: cmd, ended: make(chan struct{})}
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, in, out, &c.stderr
	cmd.SysProcAttr = ownSession()
	cmd.WaitDelay = time.Second // a master process that ssh leaves behind (ControlPersist) holds standard error open
	err = cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, fmt.Errorf("start ssh: %w", err)
	}
	go func() {
		c.result = cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// sshConn is a connection through one ssh process.
type sshConn struct {
	in, out *os.File // its standard input and output
	cmd     *exec.Cmd
	stderr  engine.Tail // on its standard error
	ended   chan struct{}
	result  error // valid after the process has ended
}

func (c *sshConn) Read(b []byte) (int, error) {
	n, err := c.out.Read(b)
	if err == io.EOF {
		select {
		case <-c.ended:
		case <-time.After(2 * time.Second):
			return n, err
		}
		if text := c.stderr.String(); c.result != nil && text != "" {
			return n, fmt.Errorf("ssh ended: %s", text)
		}
	}
	return n, err
}

func (c *sshConn) Write(b []byte) (int, error) { return c.in.Write(b) }

// CloseWrite closes the process's input, which ends the engine's.
func (c *sshConn) CloseWrite() error { return c.in.Close() }

func (c *sshConn) Close() error {
	c.in.Close()
	c.out.Close()
	_ = c.cmd.Process.Kill()
	<-c.ended
	return nil
}

func (c *sshConn) LocalAddr() net.Addr  { return sshAddr{} }
func (c *sshConn) RemoteAddr() net.Addr { return sshAddr{} }
func (c *sshConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *sshConn) SetReadDeadline(t time.Time) error  { return c.out.SetReadDeadline(t) }
func (c *sshConn) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }

type sshAddr struct{}

func (sshAddr) Network() string { return "ssh" }
func (sshAddr) String() string  { return "ssh" }
