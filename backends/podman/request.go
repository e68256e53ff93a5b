package podman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"time"

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
	f := (*failure)(nil)
	return errors.As(err, &f) && f.status == http.StatusNotFound
}

// call sends a request and decodes the answer into out, if that is not nil.
func (e *Engine) call(ctx context.Context, r request, out any) error {
	res, err := e.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
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
	for name, values := range r.header {
		req.Header[name] = values
	}
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
		f.message = shorten(says.Message)
	} else {
		f.notAPI = true
		f.message = shorten(string(data))
	}
	if f.message == "" {
		f.message = engine.Plain(res.Status)
	}
	return f
}

// shorten makes a line for people of a message of Podman. It keeps the end, where the cause is: some errors print whole
// structures.
func shorten(message string) string {
	const limit = 600
	if len(message) > limit {
		return "..." + engine.Plain(message[len(message)-limit:])
	}
	return engine.Plain(message)
}

// transient reports whether an error is one of the connection, or of a service that is about to be there.
func transient(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	if f := (*failure)(nil); errors.As(err, &f) {
		return f.status == http.StatusServiceUnavailable || f.status == http.StatusBadGateway
	}
	u := (*url.Error)(nil)
	return errors.As(err, &u)
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
