package podman

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Build implements [container.Engine].
func (e *Engine) Build(ctx context.Context, reference string, archive io.Reader, labels map[string]string, progress func(line string)) error {
	named, err := json.Marshal(labels)
	if err != nil {
		return err
	}
	res, err := e.send(ctx, request{
		method: http.MethodPost, path: "/build", body: archive, header: http.Header{"Content-Type": {"application/x-tar"}},
		query: url.Values{
			"t": {reference}, "labels": {string(named)}, "dockerfile": {"Containerfile"},
			"rm": {"true"}, "forcerm": {"true"}, "layers": {"true"},
		},
	})
	if err != nil {
		return fmt.Errorf("build the image %s: %w", reference, err)
	}
	defer res.Body.Close()
	if err := printProgress(res.Body, progress); err != nil {
		return fmt.Errorf("build the image %s: %w", reference, err)
	}
	return nil
}
