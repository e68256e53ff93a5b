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

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errhttp"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// api is the version of Podman's API that we use: the oldest that all services from 4.0 to 5.x support, so that
// their responses have one form. dockerAPI is the version of Docker's API, which all of them support.
const (
	api       = "4.0.0"
	dockerAPI = "1.40"
)

// request is a call of Podman's own API, for operations and answers that Docker's lacks.
type request struct {
	method string
	path   string // below /libpod, with names escaped
	query  url.Values
	header http.Header
	json   any  // request body
	again  bool // the request may be sent twice
}

// call sends a request and decodes the response into out, if that is not nil.
func (e *Engine) call(ctx context.Context, r request, out any) error {
	return e.readAnswer(ctx, r, func(answer io.Reader) error {
		if out == nil {
			_, err := io.Copy(io.Discard, answer)
			return err
		}
		if err := json.NewDecoder(answer).Decode(out); err != nil {
			return fmt.Errorf("read podman's answer: %w", err)
		}
		return nil
	})
}

// readAnswer sends a request and reads the response.
func (e *Engine) readAnswer(ctx context.Context, r request, read func(io.Reader) error) error {
	send := func(l client.Link) error { return r.send(ctx, l, read) }
	if r.again {
		return e.Retry(ctx, send)
	}
	return e.RetryIf(ctx, neverSent, send)
}

// neverSent reports whether the request can't have reached the service.
func neverSent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// send avoids the library's DoRequest, which sends failed requests three times: a container could be started twice.
func (r request) send(ctx context.Context, l client.Link, read func(io.Reader) error) error {
	req, err := r.build(ctx)
	if err != nil {
		return err
	}
	res, err := l.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return readError(res)
	}
	return read(res.Body)
}

func (r request) build(ctx context.Context) (*http.Request, error) {
	var body io.Reader
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

// failure is an error response.
type failure struct {
	message string
	kind    error // an error of errdefs
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.kind }

// readError decodes an error response.
func readError(res *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	var says struct{ Message string }
	if json.Unmarshal(data, &says) != nil || says.Message == "" {
		says.Message = string(data)
	}
	kind := errhttp.ToNative(res.StatusCode)
	if res.StatusCode == http.StatusInternalServerError {
		kind = errdefs.ErrUnknown // includes permanent errors, such as an image that a registry does not have
	}
	return &failure{cmp.Or(engine.Shorten(says.Message), engine.OneLine(res.Status)), kind}
}

// explain adds the operation to a request's error. The library's text would blame Docker.
func (e *Engine) explain(doing string, err error) error {
	if moby.IsErrConnectionFailed(err) {
		why := "podman does not answer, or closed the connection"
		if no, is := errors.AsType[syscall.Errno](err); is {
			why += ": " + no.Error()
		}
		return fmt.Errorf("%s: %w", doing, &failure{why, err})
	}
	return client.Explain(doing, err)
}
