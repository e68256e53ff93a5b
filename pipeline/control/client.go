package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
)

const (
	greeting  = 2 * time.Second  // how long a server may take to say who it is
	maxAnswer = 64 << 20         // bytes of what a server says
	maxWait   = 30 * time.Second // for one request
)

// Client talks to one server. Its methods may be called concurrently.
type Client struct {
	server Server // as it told when we connected
	socket string
	silent []string
	http   http.Client
}

// Dial connects to the server whose socket in dir has this name, or for "" to the only one that
// runs. An absolute path is that of a socket, which may be another user's: root finds servers so. It
// returns ErrNone when none does, and a *Several when there is a choice to make. Sockets of servers that
// are dead are removed.
func Dial(ctx context.Context, dir, name string) (*Client, error) {
	if filepath.IsAbs(name) {
		return at(ctx, name)
	}
	err := private(dir)
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

// at connects to whoever listens at path.
func at(ctx context.Context, path string) (*Client, error) {
	c := newClient("", "")
	c.socket = path
	c.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	if err := c.do(ctx, http.MethodGet, "/v1/server", nil, &c.server); err != nil {
		return nil, fmt.Errorf("ask the server at %q: %w", path, err)
	}
	c.server.Name = path
	return c, nil
}

// greeted is a server that took our connection. With an error it did not say who it is.
type greeted struct {
	client *Client
	err    error
}

// greet finds the servers that live, or only the one of this name: others may hang.
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
			err := c.do(ctx, http.MethodGet, "/v1/server", nil, &c.server)
			c.server.Name = name
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

// removeStale removes the socket of a dead server. Should it live after all, it stays; should it not be
// possible, it is tried again the next time.
func removeStale(dir, name string) {
	if unlock, err := lock(dir); err == nil {
		defer unlock()
		_, _ = free(dir, name)
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

// choose returns the server that is meant.
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
		return nil, fmt.Errorf("%w of the name %.40q", ErrNone, name)
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
		http: http.Client{
			Transport: &http.Transport{
				DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dir, name) },
				DisableCompression: true,
				IdleConnTimeout:    usual.read / 2, // before the server closes it, just when something is sent
			},
			Timeout: maxWait,
		},
	}
}

// Close ends the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Approvals returns the questions that wait for an answer, the oldest first.
func (c *Client) Approvals(ctx context.Context) ([]approval.Question, error) {
	v, err := call[questions](ctx, c, http.MethodGet, "/v1/approvals", nil)
	return v.Approvals, err
}

// Grants returns the approvals that hold, the oldest question first.
func (c *Client) Grants(ctx context.Context) ([]Grant, error) {
	v, err := call[grants](ctx, c, http.MethodGet, "/v1/grants", nil)
	return v.Grants, err
}

// Answer answers a question, or takes back what was approved. It returns approval.ErrUnknown and
// approval.ErrAnswered as the server's broker does.
func (c *Client) Answer(ctx context.Context, id string, v Verdict) (Outcome, error) {
	return call[Outcome](ctx, c, http.MethodPost, "/v1/approvals/"+url.PathEscape(id), v)
}

// Silent names the other servers that live and did not say who they are: the choice was made without them.
func (c *Client) Silent() []string { return c.silent }

// Socket is the path of the server's socket.
func (c *Client) Socket() string { return c.socket }

// Server returns the description that the server gave of itself when the client connected.
func (c *Client) Server() Server { return c.server }

// call sends a request, and returns the server's answer as a T.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (v T, err error) {
	err = c.do(ctx, method, path, body, &v)
	return v, err
}

// do sends a request to the server, and decodes the JSON of its answer into into.
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	resp, err := send(ctx, &c.http, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return failed(resp.StatusCode, data)
	}
	return json.Unmarshal(data, into)
}

// send sends a request, whose body is JSON, or empty for nil.
func send(ctx context.Context, by *http.Client, method, path string, body any) (*http.Response, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	resp, err := by.Do(req)
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return nil, e.Err // its address is none that means anything to people
	}
	return resp, err
}

// failed returns the error in a server's answer.
func failed(status int, body []byte) error {
	var m message
	if json.Unmarshal(body, &m) != nil || m.Error == "" {
		m.Error = fmt.Sprintf("the server says %d %s", status, http.StatusText(status))
	}
	for _, known := range []error{approval.ErrUnknown, approval.ErrAnswered, approval.ErrRoot} {
		if m.Error == known.Error() {
			return known
		}
	}
	return &Failure{Status: status, Text: m.Error, Hint: m.Hint}
}
