package podman

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// api is the version of the API that we speak: the oldest that every service from 4.0 to 5.x knows, so that all answer
// in the same form.
const api = "4.0.0"

// request is one call of the libpod API.
type request struct {
	method string
	path   string // below /libpod, with names escaped
	query  url.Values
	header http.Header
	json   any       // what to send, or
	body   io.Reader // this, which can't be sent a second time
	again  bool      // it does no harm to send it twice
}

// failure is an answer with an error.
type failure struct {
	status  int
	message string
	notAPI  bool // the answer of a server that does not know the path, not of the API
}

func (f *failure) Error() string { return f.message }

// isGone reports whether an answer says that a thing does not exist.
func isGone(err error) bool {
	f, is := errors.AsType[*failure](err)
	return is && f.status == http.StatusNotFound
}

// call sends a request and decodes the answer into out, if that is not nil.
func (e *Engine) call(ctx context.Context, r request, out any) error {
	res, err := e.send(ctx, r)
	if err != nil {
		return err
	}
	if out == nil {
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	if err := decode(res, out); err != nil {
		return fmt.Errorf("read podman's answer: %w", err)
	}
	return nil
}

// send sends a request, once more if that does no harm, and returns a successful answer.
func (e *Engine) send(ctx context.Context, r request) (*http.Response, error) {
	res, err := e.sendOnce(ctx, r)
	if !transient(ctx, err) || r.body != nil || !r.again && !neverSent(err) {
		return res, err
	}
	if !engine.Pause(ctx, 200*time.Millisecond) {
		return nil, err
	}
	return e.sendOnce(ctx, r)
}

// sendOnce does not use the library's DoRequest, which sends failed requests three times: a container could be started
// twice, and a body that was read is not sent again.
func (e *Engine) sendOnce(ctx context.Context, r request) (*http.Response, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	res, err := l.send(ctx, r)
	if transient(ctx, err) {
		e.drop(l)
	}
	return res, err
}

func (l *connection) send(ctx context.Context, r request) (*http.Response, error) {
	req, err := r.build(ctx)
	if err != nil {
		return nil, err
	}
	res, err := l.conn.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, refused(res)
	}
	return res, nil
}

func (r request) build(ctx context.Context) (*http.Request, error) {
	body := r.body
	if r.json != nil {
		data, err := json.Marshal(r.json)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	u := "http://d/v" + api + "/libpod" + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	if r.json != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// refused reads an answer's error.
func refused(res *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	f := &failure{status: res.StatusCode}
	var says struct{ Message string }
	if json.Unmarshal(data, &says) == nil && says.Message != "" {
		f.message = engine.Shorten(says.Message)
	} else {
		f.notAPI = true
		f.message = engine.Shorten(string(data))
	}
	f.message = cmp.Or(f.message, engine.Plain(res.Status))
	return f
}

// transient reports whether an error is one of the connection, or of a service that is about to be there.
func transient(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	if f, is := errors.AsType[*failure](err); is {
		return f.status == http.StatusServiceUnavailable || f.status == http.StatusBadGateway
	}
	_, is := errors.AsType[*url.Error](err)
	return is
}

// neverSent reports whether the request can't have arrived.
func neverSent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// decode reads a whole answer.
func decode(res *http.Response, out any) error {
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(out)
}

// Attach implements [container.Engine], by a client of Docker's on the connection.
func (e *Engine) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	transport, ok := l.conn.Client.Transport.(*http.Transport)
	if !ok {
		return nil, errors.New("attach to a container: this connection can't be taken over")
	}
	c, err := client.New(client.WithHost("http://d"), client.WithAPIVersion("1.40"), client.WithDialContext(transport.DialContext))
	if err != nil {
		return nil, fmt.Errorf("attach to a container: %w", err)
	}
	s, err := engine.Attach(ctx, c, id, stderr)
	if err != nil {
		return nil, fmt.Errorf("attach to a container: %w", err)
	}
	return s, nil
}
