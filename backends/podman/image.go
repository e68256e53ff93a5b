package podman

import (
	"context"
	"io"
	"net/http"
	"net/url"

	dockerimage "github.com/moby/moby/api/types/image"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
)

// Image implements [container.Engine]. Docker's API would have Podman look an image up twice, and each start waits
// for that.
func (e *Engine) Image(ctx context.Context, reference string) (container.Image, error) {
	var found dockerimage.InspectResponse
	err := e.call(ctx, request{method: http.MethodGet, path: "/images/" + url.PathEscape(reference) + "/json", again: true}, &found)
	return e.ConvertImage(reference, found, err)
}

// Pull implements [container.Engine]. In Docker's API, a name without a registry is always Docker Hub's, whatever
// registries.conf contains.
func (e *Engine) Pull(ctx context.Context, reference string, progress func(line string)) error {
	doing := "pull image " + reference
	header, err := e.env.registryAuth(reference)
	if err != nil {
		return e.explain(doing, err)
	}
	pull := request{method: http.MethodPost, path: "/images/pull", query: url.Values{"reference": {reference}}, header: header, again: true}
	return e.explain(doing, e.readAnswer(ctx, pull, func(answer io.Reader) error { return client.PrintProgress(answer, progress) }))
}

// Build implements [container.Engine]. Podman itself reads the credentials for the images that it needs.
func (e *Engine) Build(ctx context.Context, reference string, archive io.Reader, labels map[string]string,
	progress func(line string)) error {
	return e.Client.Build(ctx, reference, archive, labels, nil, progress)
}
