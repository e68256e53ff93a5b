package podman

import (
	"path/filepath"
	"slices"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// TestContract runs the attacks that all backends share, in containers of an image whose configuration
// interferes wherever it can.
func TestContract(t *testing.T) {
	url := enginetest.Podman(t)
	binary := enginetest.Binary(t)
	state := filepath.Join(t.TempDir(), "state")
	o := backendtest.Options{
		Profile: "hardened", Layers: slices.Clone(backends.EngineLayers), OwnDisks: true, OneAddress: true,
		Left: enginetest.Left(url), Dirs: []string{state}, Require: enginetest.Required(),
	}
	if abi, err := ll.LandlockGetABIVersion(); err == nil && abi > 0 {
		o.Layers = append(o.Layers, backends.LayerLandlock)
	}
	info, err := New(Config{Host: url}).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.UserNS {
		o.Layers = append(o.Layers, backends.LayerUser)
	}
	o.Cgroup = info.Limits
	images := enginetest.Images(t, url)
	backendtest.Run(t, func(t testing.TB) backends.Backend {
		return container.New(New(Config{Host: url}), container.Config{Images: images, Pull: "never", StateDir: state, Binary: binary})
	}, o)
}

// TestNastyImages runs programs in images whose files are in the way.
func TestNastyImages(t *testing.T) {
	url, binary := enginetest.Podman(t), enginetest.Binary(t)
	enginetest.Nasty(t, url, func(t testing.TB, images map[string]string) backends.Backend {
		return container.New(New(Config{Host: url}), container.Config{Images: images, Pull: "never", StateDir: filepath.Join(t.TempDir(), "state"), Binary: binary})
	})
}
