package podman

import (
	"context"
	"io"

	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
)

// Seed implements [container.Engine]. The volume's name should contain the hash of the archive.
func (e *Engine) Seed(ctx context.Context, name string, labels map[string]string, archive io.Reader, image string) error {
	return e.Fill(ctx, name, labels, archive, func() (string, error) {
		return e.create(ctx, spec{
			Image: image, Entrypoint: []string{"/never"}, WorkDir: "/", User: "0:0", UnsetEnvAll: true, Labels: labels,
			Remove: true, Restart: "no", Systemd: "false", Log: map[string]string{"driver": "none"}, Health: map[string]any{"Test": []string{"NONE"}},
			Net: namespace{Mode: "none"}, CapDrop: []string{"ALL"}, NoNewPrivs: true, ImageVolumes: "ignore", ImageResolv: true, ImageHosts: true,
			Volumes: []volume{{Name: name, Dest: client.SeedPath, Options: []string{"nocopy"}}},
		})
	})
}
