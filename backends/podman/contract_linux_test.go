package podman

import (
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// TestContract runs the attacks that all backends share.
func TestContract(t *testing.T) {
	url := enginetest.Podman(t)
	enginetest.Contract(t, url, func() container.Engine { return New(Config{Host: url}) })
}

// TestNastyImages runs programs in images whose files are in the way.
func TestNastyImages(t *testing.T) {
	url, binary := enginetest.Podman(t), enginetest.Binary(t)
	enginetest.Nasty(t, url, func(t testing.TB, images map[string]string) backends.Backend {
		return container.New(New(Config{Host: url}), container.Config{Images: images, Pull: "never", StateDir: filepath.Join(t.TempDir(), "state"), Binary: binary})
	})
}
