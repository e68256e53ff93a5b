package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

const (
	greeting  = 2 * time.Second  // time for a server to describe itself
	maxAnswer = 64 << 20         // bytes of one part of a stream
	maxWait   = 30 * time.Second // for one request
)

// Client is a connection to one server. Its methods may be called concurrently.
type Client struct {
	server Server // as it described itself at the connection
	socket string
	silent []string
	at     *operation.Server
}

// Dial connects to the server whose socket in dir has this name, or for "" to the only running one. An absolute path
// names a socket, which may be another user's: root uses that. Dial returns ErrNone if no server is running, and a
// *Several if there are several. It removes sockets of dead servers.
func Dial(ctx context.Context, dir, name string) (*Client, error) {
	if filepath.IsAbs(name) {
		return dialSocket(ctx, name)
	}
	err := checkPrivate(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	var found []greeted
	if err == nil {
		found, err = greet(ctx, dir, name)
	}
	if err != nil {
		return nil, fmt.Errorf("look for servers in %q: %w", dir, err)
	}
	c, err := choose(found, name)
	for _, g := range found {
		if g.client != c {
			g.client.Close()
		}
	}
	return c, err
}

// dialSocket connects to the server that listens at path.
func dialSocket(ctx context.Context, path string) (*Client, error) {
	c := newClient("", "")
	c.socket = path
	c.at.HTTP.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	var err error
	if c.server, err = getServer.Call(ctx, c.at, NoArguments{}); err != nil {
		return nil, fmt.Errorf("ask the server at %q: %w", path, err)
	}
	c.server.Name = path
	return c, nil
}

// Remote connects to the server at an HTTP URL, with a person's token. Without TLS it must be on this machine,
// because others could read the token on the way.
func Remote(ctx context.Context, address, token string) (*Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%.100q is not the address of a server, such as https://HOST:PORT", address)
	case u.Scheme == "http" && !identity.Loopback(u.Hostname()):
		return nil, fmt.Errorf("the token would be sent to %s without TLS: use https", u.Hostname())
	}
	c := &Client{socket: address, at: &operation.Server{URL: strings.TrimSuffix(address, "/"), Token: token, Failed: failed,
		HTTP: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), Timeout: maxWait}}}
	c.at.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.server, err = getServer.Call(ctx, c.at, NoArguments{}); err != nil {
		return nil, fmt.Errorf("ask the server at %q: %w", address, err)
	}
	c.server.Name = address
	return c, nil
}

// greeted is a server that accepted our connection; err is set if it did not describe itself.
type greeted struct {
	client *Client
	err    error
}

// greet contacts the running servers, or only the one with this name: others may hang.
func greet(ctx context.Context, dir, only string) ([]greeted, error) {
	names, err := sockets(dir)
	if err != nil {
		return nil, err
	}
	if only != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name != only })
	}
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	var all sync.WaitGroup
	found := make([]greeted, len(names))
	for i, name := range names {
		all.Go(func() {
			c := newClient(dir, name)
			server, err := getServer.Call(ctx, c.at, NoArguments{})
			c.server, c.server.Name = server, name
			if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
				removeStale(dir, name)
				return
			}
			found[i] = greeted{c, err}
		})
	}
	all.Wait()
	return slices.DeleteFunc(found, func(g greeted) bool { return g.client == nil }), nil
}

// RemoveLeft removes the sockets of dead servers from the socket directory.
func RemoveLeft(dir string) {
	names, _ := sockets(dir)
	for _, name := range names {
		pid, _, _ := strings.Cut(name, "-")
		if _, err := os.Stat("/proc/" + pid); err != nil { // a live server may be slow to answer
			removeStale(dir, name)
		}
	}
}

// removeStale removes the socket of a dead server, but not of a live one. A failure is ignored: the next call tries
// again.
func removeStale(dir, name string) {
	if unlock, err := lock(dir); err == nil {
		defer unlock()
		_, _ = isFree(dir, name)
	}
}

var named = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+(-[0-9]+)?$`) })

func sockets(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), socketSuffix)
		if ok && named().MatchString(name) && e.Type() == fs.ModeSocket {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return names, nil
}

// choose returns the requested server.
func choose(found []greeted, name string) (*Client, error) {
	var living []greeted
	var silent []string
	for _, g := range found {
		if g.err == nil {
			living = append(living, g)
		} else {
			silent = append(silent, g.client.server.Name)
		}
	}
	switch {
	case len(living) == 1:
		living[0].client.silent = silent
		return living[0].client, nil
	case len(found) == 0 && name != "":
		return nil, fmt.Errorf("%w with the name %.40q", ErrNone, name)
	case len(found) == 0:
		return nil, ErrNone
	case len(living) == 0:
		return nil, fmt.Errorf("server %s does not answer: %w", found[0].client.server.Name, found[0].err)
	}
	several := &Several{}
	for _, g := range living {
		several.Servers = append(several.Servers, g.client.server)
	}
	return nil, several
}

func newClient(dir, name string) *Client {
	return &Client{
		server: Server{Name: name},
		socket: filepath.Join(dir, name+socketSuffix),
		at: &operation.Server{URL: "http://server", Failed: failed, HTTP: &http.Client{
			Transport: &http.Transport{
				DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dir, name) },
				DisableCompression: true,
				IdleConnTimeout:    usual.read / 2, // before the server closes it while a request is sent
			},
			Timeout: maxWait,
		}},
	}
}

// Close ends the connection.
func (c *Client) Close() { c.at.HTTP.CloseIdleConnections() }

// Call calls an operation of a server.
func Call[A, R any](ctx context.Context, c *Client, what *operation.Route[A, R], args A) (R, error) {
	if what.Long {
		return what.Call(ctx, c.endless(), args)
	}
	return what.Call(ctx, c.at, args)
}

// Approvals returns the waiting questions, the oldest first.
func (c *Client) Approvals(ctx context.Context) ([]approval.Question, error) {
	v, err := listApprovals.Call(ctx, c.at, NoArguments{})
	return v.Approvals, err
}

// Grants returns the approvals in force, the oldest question first.
func (c *Client) Grants(ctx context.Context) ([]Grant, error) {
	v, err := listGrants.Call(ctx, c.at, NoArguments{})
	return v.Grants, err
}

// Silent names the other running servers that did not describe themselves: the choice ignored them.
func (c *Client) Silent() []string { return c.silent }

// Socket returns the path of the server's socket.
func (c *Client) Socket() string { return c.socket }

// Server returns the server's description of itself at the connection.
func (c *Client) Server() Server { return c.server }

// failed returns the error in a server's answer.
func failed(status int, body []byte) error {
	var m message
	if json.Unmarshal(body, &m) != nil || m.Error == "" {
		m.Error = fmt.Sprintf("the server answered %d %s", status, http.StatusText(status))
	}
	f := &Failure{Status: status, Text: m.Error, Hint: m.Hint}
	for _, known := range []error{approval.ErrUnknown, approval.ErrAnswered, approval.ErrRoot} {
		if m.Error == known.Error() {
			f.known = known
		}
	}
	return f
}
