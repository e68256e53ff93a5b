package podman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/containers/podman/v5/pkg/bindings"
	moby "github.com/moby/moby/client"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// connection is a connection to a service, with the service's description.
type connection struct {
	client.Link
	endpoint endpoint
	service  *service // our own, or nil
	facts    facts
}

func (l *connection) close() {
	l.HTTP.CloseIdleConnections()
	l.Client.Close()
	if l.service != nil {
		l.service.stop()
	}
}

var errClosed = errors.New("podman's connection was closed")

// connect returns the connection, and opens it if there is none.
func (e *Engine) connect(ctx context.Context) (*connection, error) {
	select {
	case e.sem <- struct{}{}:
		defer func() { <-e.sem }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.closed {
		return nil, errClosed
	}
	if e.conn != nil && (e.conn.service == nil || e.conn.service.alive()) {
		return e.conn, nil
	}
	if e.conn != nil {
		e.conn.close()
		e.conn = nil
	}
	l, err := e.openConnection(ctx)
	if err != nil {
		return nil, err
	}
	e.conn = l
	return l, nil
}

// clientLink returns only the connection's link.
func (e *Engine) clientLink(ctx context.Context) (client.Link, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return client.Link{}, err
	}
	return l.Link, nil
}

// forgetConnection drops a failed connection. Connections over ssh do not recover by themselves.
func (e *Engine) forgetConnection(failed client.Link) {
	e.sem <- struct{}{}
	defer func() { <-e.sem }()
	if l := e.conn; l != nil && l.Link == failed && l.service == nil {
		l.close()
		e.conn = nil
	}
}

// openConnection finds a service or starts one.
func (e *Engine) openConnection(ctx context.Context) (*connection, error) {
	var first error
	if e.config.Service == nil {
		places, err := e.findEndpoints()
		if err != nil {
			return nil, &backends.Refusal{Reason: err.Error()}
		}
		for _, p := range places {
			l, err := e.dial(ctx, p)
			if err == nil || p.named || ctx.Err() != nil {
				return l, err
			}
			first = errors.Join(first, err)
		}
	}
	command := e.config.Service
	if command == nil {
		command = []string{"podman"}
	}
	s, err := e.startService(ctx, command)
	if errors.Is(err, errors.ErrUnsupported) && first != nil {
		return nil, first
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, errors.ErrUnsupported) {
		return nil, backends.Refuse("no Podman answers, and it is not installed", installRemedy()...)
	}
	if err != nil {
		return nil, err
	}
	l, err := e.dial(ctx, s.endpoint())
	if err != nil {
		s.stop()
		return nil, err
	}
	l.service = s
	return l, nil
}

// dial connects to the service at an endpoint.
func (e *Engine) dial(ctx context.Context, p endpoint) (*connection, error) {
	// The library tries three times and wraps the reason: this check fails at once.
	if path := p.path(); path != "" {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, p.unreachableError(err)
		}
		c.Close()
	}
	if err := p.checkKey(); err != nil {
		return nil, err
	}
	// The library stores the connection in the context that it returns; ctx serves nothing else here.
	with, err := bindings.NewConnectionWithIdentity(ctx, p.url, p.identity, p.machine)
	if err != nil {
		return nil, p.unreachableError(err)
	}
	conn, err := bindings.GetClient(with)
	if err != nil {
		return nil, err
	}
	transport, ok := conn.Client.Transport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("connect to podman at %s: our bug: a %T can't be taken over", p.redacted(), conn.Client.Transport)
	}
	l := &connection{Link: client.Link{HTTP: conn.Client}, endpoint: p}
	l.Client, err = moby.New(moby.WithHost("unix:///podman"), moby.WithAPIVersion(dockerAPI), moby.WithDialContext(transport.DialContext),
		// otherwise Podman ignores all credentials except those of a header that is always there
		moby.WithHTTPRequestHook(func(r *http.Request) error {
			r.Header.Del("X-Registry-Config")
			return nil
		}))
	if err != nil {
		return nil, err
	}
	if l.facts, err = e.queryInfo(ctx, l); err != nil {
		return nil, fmt.Errorf("query podman at %s: %w", p.redacted(), err)
	}
	return l, nil
}

// unreachableError explains with a remedy why no service answers.
func (p endpoint) unreachableError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	r := backends.Refuse(fmt.Sprintf("no Podman answers at %s: %v", p.redacted(), err), startRemedy(os.Geteuid()))
	if p.source != "" {
		r.Reason += ", which " + p.source + " names"
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		r.Reason = fmt.Sprintf("this user may not use Podman at %s", p.redacted())
		r.Remedy = remedy.Text{"use one of your own: ", remedy.Command.With("systemctl --user enable --now podman.socket")}
	case p.path() == "":
		r.Remedy = remedy.Text{"try: ", remedy.Command.With("podman --url " + p.redacted() + " info")}
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
		r.Remedy = nil
	}
	return r
}

func startRemedy(uid int) remedy.Part {
	switch {
	case runtime.GOOS != "linux":
		return remedy.Command.With("podman machine start")
	case uid == 0:
		return remedy.Command.With("systemctl enable --now podman.socket")
	}
	return remedy.Command.With("systemctl --user enable --now podman.socket")
}

func installRemedy() remedy.Text {
	if runtime.GOOS != "linux" {
		return remedy.Text{"see https://podman.io/docs/installation, then: ", remedy.Command.With("podman machine init --now")}
	}
	return remedy.Text{"install the package podman of your distribution"}
}

// checkKey refuses an endpoint for which the library would ask for a password or a passphrase: it reads them from
// our standard input even if that is not a terminal, and would consume the MCP messages there.
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
	return backends.Refuse("no ssh key for "+p.redacted(), "set CONTAINER_SSHKEY to the file of a private key, or add one to an "+
		"ssh-agent: ssh-add")
}

func (p endpoint) encrypted() error {
	key, err := os.ReadFile(p.identity)
	if err != nil {
		return backends.Refuse(fmt.Sprintf("read the ssh key for %s: %v", p.redacted(), err))
	}
	_, err = ssh.ParsePrivateKey(key)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return backends.Refuse(fmt.Sprintf("the ssh key %s has a passphrase, which nobody can enter", p.identity),
			remedy.Command.With("ssh-add "+p.identity), ", and name no key")
	}
	return nil
}

// agentHasKeys asks an ssh-agent for its keys. Without keys the library would ask for a password.
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
