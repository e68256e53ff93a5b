package podman

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// Seed implements [container.Engine]. Podman before 5.6 can fill a volume only through a container, which is made for
// it and never started. The volume's name should contain the hash of the archive.
func (e *Engine) Seed(ctx context.Context, name string, labels map[string]string, archive io.Reader, image string) error {
	if err := e.seed(ctx, name, labels, archive, image); err != nil {
		return fmt.Errorf("fill the volume %s: %w", name, err)
	}
	return nil
}

func (e *Engine) seed(ctx context.Context, name string, labels map[string]string, archive io.Reader, image string) error {
	if err := e.makeVolume(ctx, name, labels); err != nil {
		return err
	}
	const inside = "/seed"
	id, err := e.create(ctx, spec{
		Image: image, Entrypoint: []string{"/never"}, WorkDir: "/", User: "0:0", UnsetEnvAll: true, Labels: labels,
		Remove: true, Restart: "no", Systemd: "false", Log: map[string]string{"driver": "none"}, Health: map[string]any{"Test": []string{"NONE"}},
		Net: namespace{Mode: "none"}, CapDrop: []string{"ALL"}, NoNewPrivs: true, ImageVolumes: "ignore", ImageResolv: true, ImageHosts: true,
		Volumes: []volume{{Name: name, Dest: inside, Options: []string{"nocopy"}}},
	})
	if err != nil {
		return err
	}
	defer e.discard(id)
	mark := request{
		method: http.MethodHead, path: "/containers/" + url.PathEscape(id) + "/archive", again: true,
		query: url.Values{"path": {inside + "/" + container.SeedEnd}},
	}
	if err := e.call(ctx, mark, nil); err == nil || !isGone(err) {
		return err
	}
	return e.put(ctx, id, inside, archive)
}

// makeVolume makes a volume, unless it exists.
func (e *Engine) makeVolume(ctx context.Context, name string, labels map[string]string) error {
	there := request{method: http.MethodGet, path: "/volumes/" + url.PathEscape(name) + "/exists", again: true}
	err := e.call(ctx, there, nil)
	if !isGone(err) {
		return err
	}
	err = e.call(ctx, request{method: http.MethodPost, path: "/volumes/create", json: map[string]any{
		"Name": name, "Label": labels, "Labels": labels,
	}}, nil)
	// Another server may have made it at the same time.
	if err != nil && e.call(ctx, there, nil) == nil {
		return nil
	}
	return err
}
