package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// pageKey marks the context of a request from the page.
type pageKey struct{}

// pageHeader marks requests from the page on the server's own socket. It is ignored elsewhere.
const pageHeader = "Sandboxmcp-Page"

// LocalClient returns a client of an API of this process, for the page. The identity in a call's context is the
// sender.
func LocalClient(a *API) *Client {
	return &Client{server: a.c.Server, at: &operation.Server{URL: "http://server", Failed: failed,
		HTTP: &http.Client{Transport: localTransport{a}, Timeout: maxWait}}}
}

// ForPage returns a client on the same connections, whose requests the log attributes to the page.
func (c *Client) ForPage() *Client {
	own := *c
	at := *c.at
	at.HTTP = &http.Client{Transport: pageTransport{at.HTTP.Transport}, Timeout: maxWait}
	own.at = &at
	return &own
}

// pageTransport marks requests as the page's.
type pageTransport struct{ http.RoundTripper }

func (m pageTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(pageHeader, "yes")
	return m.RoundTripper.RoundTrip(r)
}

// localTransport is a transport to an API of this process.
type localTransport struct{ api *API }

func (t localTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, ok := identity.From(r.Context()); !ok {
		return nil, errors.New("nobody asks: this is a bug of sandboxmcp")
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), pageKey{}, true))
	body, out := io.Pipe()
	w := &pipedResponse{header: http.Header{}, out: out, begun: make(chan struct{})}
	r = r.Clone(ctx)
	if r.Body == nil {
		r.Body = http.NoBody
	}
	go func() {
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				t.api.c.Log.Error("control: a handler panicked: this is a bug of sandboxmcp")
				out.CloseWithError(io.ErrUnexpectedEOF)
			}
			w.WriteHeader(http.StatusInternalServerError)
			out.Close()
		}()
		t.api.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		select {
		case <-w.begun: // the handler has ended with an answer
		default:
			body.CloseWithError(context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	}
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor:    1,
		ContentLength: -1, Request: r, Body: &cancellingBody{body, cancel}}, nil
}

// cancellingBody cancels the request when its client closes the answer, as the end of a connection does.
type cancellingBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (r *cancellingBody) Close() error {
	r.cancel()
	return r.PipeReader.Close()
}

// pipedResponse is an answer that its client reads while it is written.
type pipedResponse struct {
	header http.Header
	out    *io.PipeWriter
	once   sync.Once
	status int
	begun  chan struct{}
}

func (w *pipedResponse) Header() http.Header { return w.header }

func (w *pipedResponse) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.begun)
	})
}

func (w *pipedResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// FlushError implements the interface of http.ResponseController, as the deadlines do; they have no effect in this
// process.
func (w *pipedResponse) FlushError() error { return nil }

// SetReadDeadline does nothing: the request is complete.
func (w *pipedResponse) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the reader is in this process.
func (w *pipedResponse) SetWriteDeadline(time.Time) error { return nil }
