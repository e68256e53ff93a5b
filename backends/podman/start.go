package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// Start implements [container.Engine]. If the connection fails on the way, nothing is sent again: the container is
// inspected instead.
func (e *Engine) Start(ctx context.Context, id string) error {
	err := e.call(ctx, request{method: http.MethodPost, path: "/containers/" + url.PathEscape(id) + "/start"}, nil)
	if transient(ctx, err) {
		var is inspected
		looked := e.call(ctx, inspect(id), &is)
		if looked == nil && is.State.begun() || isGone(looked) { // it has ended already, and was removed
			err = nil
		}
	}
	if err != nil {
		e.forgetInfo()
		return fmt.Errorf("start a container: %w", err)
	}
	e.own.markStarted(id)
	return nil
}

// Update implements [container.Engine]. Before 4.3, Podman can't: the error then is
// [errors.ErrUnsupported].
func (e *Engine) Update(ctx context.Context, id string, r container.Resources) error {
	l, err := e.connect(ctx)
	if err != nil {
		return err
	}
	limits := l.facts.resources(r)
	if limits == nil {
		if r == (container.Resources{}) {
			return nil
		}
		return fmt.Errorf("change a container's limits: %w: this Podman can't limit any", errors.ErrUnsupported)
	}
	err = e.call(ctx, request{method: http.MethodPost, path: "/containers/" + url.PathEscape(id) + "/update", json: limits, again: true}, nil)
	if f := (*failure)(nil); errors.As(err, &f) && f.notAPI && (f.status == http.StatusNotFound || f.status == http.StatusMethodNotAllowed) {
		err = fmt.Errorf("%w by Podman before 4.3", errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("change a container's limits: %w", err)
	}
	return nil
}
