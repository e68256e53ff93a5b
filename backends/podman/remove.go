package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// Remove implements [container.Engine]. Podman's own removal of a container that has ended can be under way at the same
// time: one of both then fails, and the container is gone soon.
func (e *Engine) Remove(ctx context.Context, id string) error {
	remove := request{method: http.MethodDelete, path: "/containers/" + url.PathEscape(id), again: true, query: url.Values{
		"force": {"true"}, "volumes": {"true"}, "v": {"true"}, "timeout": {"0"}, "ignore": {"true"},
	}}
	e.awaitNotice(ctx, id)
	var err error
	for wait := 10 * time.Millisecond; wait < 6*time.Second; wait *= 2 {
		err = e.call(ctx, remove, nil)
		if f := (*failure)(nil); err != nil && !errors.As(err, &f) {
			return fmt.Errorf("remove a container: %w", err)
		}
		there := e.call(ctx, request{method: http.MethodGet, path: remove.path + "/exists", again: true}, nil)
		if isGone(there) {
			return nil
		}
		engine.Pause(ctx, wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("remove a container: %w", cmp.Or(err, errors.New("it is still there")))
}

// awaitNotice waits until Podman has noticed the end of a container, whose first process has been told to end if this is
// ours, but not for long: before that, Podman would have its runtime kill it, and find out why that failed.
func (e *Engine) awaitNotice(ctx context.Context, id string) {
	for begun := time.Now(); time.Since(begun) < time.Second/4; engine.Pause(ctx, 2*time.Millisecond) {
		var is inspected
		err := e.call(ctx, inspect(id), &is)
		if _, ended := is.State.ended(); err != nil || ended || !is.State.begun() {
			return
		}
	}
}

// List implements [container.Engine].
func (e *Engine) List(ctx context.Context, label string) ([]container.Entry, error) {
	var found []struct {
		ID     string
		Labels map[string]string
	}
	err := e.call(ctx, request{method: http.MethodGet, path: "/containers/json", again: true, query: url.Values{
		"all": {"true"}, "filters": {`{"label":[` + strconv.Quote(label) + `]}`},
	}}, &found)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var list []container.Entry
	for _, f := range found {
		list = append(list, container.Entry{ID: f.ID, Labels: f.Labels})
	}
	return list, nil
}
