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

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// sshTarget is a Docker Engine on a machine that the user's ssh reaches.
type sshTarget struct {
	host   string // user@host
	port   string
	socket string // path on that machine; "" is what its docker command takes
}

// safePath matches paths that mean the same to the other machine's shell.
var safePath = lazy.Regexp(`^/[A-Za-z0-9/._-]+$`)

// parseSSH reads ssh://[user@]host[:port][/path/of/socket]. Nothing in it may become an option of ssh,
// or more than one word for the shell at the other end.
func parseSSH(address string) (sshTarget, error) {
	u, err := url.Parse(address)
	if err != nil {
		return sshTarget{}, fmt.Errorf("the address of Docker, %q: %w", address, err)
	}
	t := sshTarget{host: u.Hostname(), port: u.Port()}
	wrong := func(what string) (sshTarget, error) {
		return sshTarget{}, fmt.Errorf("the address of Docker, %q, %s", u.Redacted(), what)
	}
	if t.host == "" || strings.HasPrefix(t.host, "-") {
		return wrong("has no host, or one that begins with a dash")
	}
	if u.User != nil {
		if _, ok := u.User.Password(); ok {
			return wrong("has a password: ssh has to get in without one, with a key")
		}
		if name := u.User.Username(); name == "" || strings.HasPrefix(name, "-") || strings.Contains(name, "@") {
			return wrong("has a user that can't be")
		}
		t.host = u.User.Username() + "@" + t.host
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return wrong("has a query or fragment")
	}
	if u.Path != "" && u.Path != "/" {
		if !safePath().MatchString(u.Path) {
			return wrong("has a path with more than letters, digits, dots, dashes, underscores and slashes")
		}
		t.socket = u.Path
	}
	return t, nil
}

// args is the command line of ssh. BatchMode, because nobody can answer a question.
func (t sshTarget) args() []string {
	args := []string{"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"}
	if t.port != "" {
		args = append(args, "-p", t.port)
	}
	args = append(args, "--", t.host, "docker")
	if t.socket != "" {
		args = append(args, "--host", "unix://"+t.socket)
	}
	return append(args, "system", "dial-stdio")
}

// dial starts an ssh for one connection to the engine.
func (t sshTarget) dial(ctx context.Context, environ []string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ssh, err := engine.Program(variable(environ, "PATH"), "ssh")
	if err != nil {
		return nil, backends.Refuse("there is no ssh, which the address of Docker needs", "install OpenSSH's client")
	}
	cmd := exec.Command(ssh, t.args()...)
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
	cmd.WaitDelay = time.Second // a master that ssh left behind (ControlPersist) keeps standard error open
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
	result  error // once ended
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

// CloseWrite tells the engine that nothing more comes.
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
