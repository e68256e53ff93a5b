package podman

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// Pull implements [container.Engine].
func (e *Engine) Pull(ctx context.Context, reference string, progress func(line string)) error {
	header, err := e.env.registryAuth(reference)
	if err != nil {
		return fmt.Errorf("fetch the image %s: %w", reference, err)
	}
	res, err := e.send(ctx, request{
		method: http.MethodPost, path: "/images/pull", query: url.Values{"reference": {reference}}, header: header, again: true,
	})
	if err != nil {
		return fmt.Errorf("fetch the image %s: %w", reference, err)
	}
	defer res.Body.Close()
	if err := printProgress(res.Body, progress); err != nil {
		return fmt.Errorf("fetch the image %s: %w", reference, err)
	}
	return nil
}
