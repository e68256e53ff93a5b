// Package client is the common part of the clients for Docker and Podman, which serves most of Docker's API, too.
//
// Libraries: moby/moby/client is Docker's own client; distribution/reference parses image names like engines.
package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// Link is a connection to an engine: the library's client, and an HTTP client for requests outside Docker's API.
type Link struct {
	*moby.Client
	HTTP *http.Client // nil if there are no such requests
}

// Client is the common part of a [container.Engine].
type Client struct {
	// Connect returns the connection, and opens it if there is none.
	Connect func(context.Context) (Link, error)
	// Lost drops a failed connection that does not recover by itself; may be nil.
	Lost func(Link)
	// Explain adds the operation to an error, like the function Explain.
	Explain func(doing string, err error) error
}

// Send sends a request.
func (c *Client) Send(ctx context.Context, send func(Link) error) error {
	l, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	if err = send(l); c.Lost != nil && ctx.Err() == nil && connectionFailed(err) {
		c.Lost(l)
	}
	return err
}

// retryPause is the time before a second attempt.
const retryPause = 300 * time.Millisecond

// Retry sends an idempotent request, and once more after a temporary failure.
func (c *Client) Retry(ctx context.Context, send func(Link) error) error {
	return c.RetryIf(ctx, IsTemporary, send)
}

// RetryIf sends a request, and once more if may returns true for the first error.
func (c *Client) RetryIf(ctx context.Context, may func(error) bool, send func(Link) error) error {
	if err := c.Send(ctx, send); !may(err) || !engine.Pause(ctx, retryPause) {
		return err
	}
	return c.Send(ctx, send)
}

// IsTemporary reports whether a stopping or starting engine caused an error: no connection, a connection cut before
// the response, or a response about the engine instead of the request.
func IsTemporary(err error) bool {
	return connectionFailed(err) || errdefs.IsUnavailable(err) || errdefs.IsInternal(err)
}

// connectionFailed reports whether a request got no response although its context has not ended.
func connectionFailed(err error) bool {
	if isContext(err) {
		return false
	}
	_, raw := errors.AsType[*url.Error](err)
	return raw || moby.IsErrConnectionFailed(err)
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Explain adds the operation to an engine's error, whose text it makes safe for people. Refusals stay unchanged.
func Explain(doing string, err error) error {
	switch {
	case err == nil || errors.As(err, new(*backends.Refusal)):
		return err
	case isContext(err):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, engineError{err})
}

// engineError is an error with the text of [Message].
type engineError struct{ error }

func (e engineError) Error() string { return Message(e.error) }
func (e engineError) Unwrap() error { return e.error }

// Message returns the message of an engine's error, for people.
func Message(err error) string {
	return engine.Shorten(strings.TrimPrefix(err.Error(), "Error response from daemon: "))
}

// Start implements [container.Engine].
func (c *Client) Start(ctx context.Context, id string) error {
	return c.Explain("start container "+id, c.Send(ctx, func(l Link) error {
		_, err := l.ContainerStart(ctx, id, moby.ContainerStartOptions{})
		return err
	}))
}

// Inspect describes a container. It does not retry: while Podman removes a container, an error suffices.
func (c *Client) Inspect(ctx context.Context, id string) (r moby.ContainerInspectResult, err error) {
	err = c.Send(ctx, func(l Link) error {
		r, err = l.ContainerInspect(ctx, id, moby.ContainerInspectOptions{})
		return err
	})
	return r, err
}

// Remove implements [container.Engine].
func (c *Client) Remove(ctx context.Context, id string) error {
	return c.Explain("remove container "+id, c.remove(ctx, id))
}

// remove kills and removes a container. The engine may fail for a while (a busy file system), and may already be
// removing a container that has just ended.
func (c *Client) remove(ctx context.Context, id string) error {
	const removeTimeout = 30 * time.Second // bounds the retries
	deadline := time.Now().Add(removeTimeout)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := c.Send(ctx, func(l Link) error {
			_, err := l.ContainerRemove(ctx, id, moby.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return err
		})
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err) || IsTemporary(err):
		default:
			return err
		}
		if time.Now().After(deadline) || !engine.Pause(ctx, pause) {
			if ctx.Err() != nil {
				return fmt.Errorf("%w (%s)", ctx.Err(), Message(err))
			}
			return err
		}
	}
}

// List implements [container.Engine].
func (c *Client) List(ctx context.Context, label string) ([]container.Entry, error) {
	var r moby.ContainerListResult
	err := c.Retry(ctx, func(l Link) (err error) {
		r, err = l.ContainerList(ctx, moby.ContainerListOptions{All: true, Filters: make(moby.Filters).Add("label", label)})
		return err
	})
	if err != nil {
		return nil, c.Explain("list containers", err)
	}
	var all []container.Entry
	for _, s := range r.Items {
		if len(s.Names) == 0 {
			// Docker 20.10, killed during a removal, lists the removed container until it is restarted.
			if _, err := c.Inspect(ctx, s.ID); errdefs.IsNotFound(err) {
				continue
			}
		}
		all = append(all, container.Entry{ID: s.ID, Labels: s.Labels})
	}
	return all, nil
}
