package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// Image implements [container.Engine].
func (e *Engine) Image(ctx context.Context, reference string) (container.Image, error) {
	var found struct {
		ID           string
		RepoTags     []string
		RepoDigests  []string
		Architecture string
		Size         int64
		Created      time.Time
		Labels       map[string]string
		Config       struct {
			Env     []string
			Volumes map[string]struct{}
			Labels  map[string]string
		}
	}
	err := e.call(ctx, request{method: http.MethodGet, path: "/images/" + url.PathEscape(reference) + "/json", again: true}, &found)
	if isGone(err) {
		return container.Image{}, fmt.Errorf("%w: %s", container.ErrNoImage, reference)
	}
	if err != nil {
		return container.Image{}, fmt.Errorf("look up the image %s: %w", reference, err)
	}
	labels := found.Labels
	if labels == nil {
		labels = found.Config.Labels
	}
	return container.Image{
		ID: "sha256:" + strings.TrimPrefix(found.ID, "sha256:"), Names: found.RepoTags,
		Digest: engine.Digest(reference, found.RepoDigests), Arch: found.Architecture, Env: found.Config.Env,
		Volumes: slices.Sorted(maps.Keys(found.Config.Volumes)), Labels: labels, Size: found.Size, Created: found.Created,
	}, nil
}

// Images implements [container.Engine].
func (e *Engine) Images(ctx context.Context, label string) ([]container.Image, error) {
	var found []struct{ ID string }
	err := e.call(ctx, request{method: http.MethodGet, path: "/images/json", again: true, query: url.Values{
		"filters": {`{"label":[` + strconv.Quote(label) + `]}`},
	}}, &found)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var list []container.Image
	for _, f := range found {
		i, err := e.Image(ctx, f.ID)
		if errors.Is(err, container.ErrNoImage) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// Pull implements [container.Engine].
func (e *Engine) Pull(ctx context.Context, reference string, progress func(line string)) error {
	header, err := e.env.registryAuth(reference)
	if err != nil {
		return fmt.Errorf("fetch the image %s: %w", reference, err)
	}
	err = e.follow(ctx, request{
		method: http.MethodPost, path: "/images/pull", query: url.Values{"reference": {reference}}, header: header, again: true,
	}, progress)
	if err != nil {
		return fmt.Errorf("fetch the image %s: %w", reference, err)
	}
	return nil
}

// Build implements [container.Engine].
func (e *Engine) Build(ctx context.Context, reference string, archive io.Reader, labels map[string]string, progress func(line string)) error {
	named, err := json.Marshal(labels)
	if err != nil {
		return err
	}
	err = e.follow(ctx, request{
		method: http.MethodPost, path: "/build", body: archive, header: http.Header{"Content-Type": {"application/x-tar"}},
		query: url.Values{
			"t": {reference}, "labels": {string(named)}, "dockerfile": {"Containerfile"},
			"rm": {"true"}, "forcerm": {"true"}, "layers": {"true"},
		},
	}, progress)
	if err != nil {
		return fmt.Errorf("build the image %s: %w", reference, err)
	}
	return nil
}

// follow sends a request, and prints the progress that the answer reports.
func (e *Engine) follow(ctx context.Context, r request, progress func(line string)) error {
	res, err := e.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return engine.PrintProgress(res.Body, progress)
}
