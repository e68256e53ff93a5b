package enginetest

import (
	"path/filepath"
	"slices"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// Contract runs the attacks that all backends share, in containers of an image whose configuration interferes
// wherever it can; then those that could go another way in containers that were started ahead, and over
// attached streams, as with an engine that can mount nothing of this host.
func Contract(t *testing.T, url string, newEngine func() container.Engine) {
	c := container.Config{Images: Images(t, url), Pull: "never", StateDir: filepath.Join(t.TempDir(), "state"), Binary: Binary(t)}
	e := newEngine()
	info, err := e.Info(t.Context())
	e.Close()
	if err != nil {
		t.Fatal(err)
	}
	o := backendtest.Options{
		Profile: "hardened", Layers: slices.Clone(backends.EngineLayers), Cgroup: info.Limits, OwnDisks: true, OneAddress: true,
		Left: Left(url), Dirs: []string{c.StateDir}, Has: has,
	}
	if abi, err := ll.LandlockGetABIVersion(); err == nil && abi > 0 {
		o.Layers = append(o.Layers, backends.LayerLandlock)
	}
	if info.UserNS {
		o.Layers = append(o.Layers, backends.LayerUser)
	}
	run := func(t *testing.T) {
		backendtest.Run(t, func(testing.TB) backends.Backend { return container.New(newEngine(), c) }, o)
	}
	t.Run("fresh", run)
	c.Ahead, o.Only = 2, []string{"Language", "Streams", "Sessions", "Listeners", "Gateway"}
	t.Run("parked", run)
	c.Ahead, c.Attach, o.Only = 0, true, []string{"Streams", "Ends", "Files", "Mains", "Listeners"}
	if info.Limits { // or else programs have a number that the image knows no name for, and that is what Language asks first
		o.Only = append(o.Only, "Language")
	}
	t.Run("attached", run)
}

// Hidden tries to see what containers are not to show, whatever is mounted.
func Hidden(t *testing.T, url string, newEngine func() container.Engine) {
	backendtest.Hidden(t, func(t testing.TB, hidden []string) backends.Backend {
		return container.New(newEngine(), container.Config{Images: Images(t, url), Pull: "never", StateDir: filepath.Join(t.TempDir(), "state"),
			Binary: Binary(t), Hidden: hidden})
	}, backendtest.Options{Profile: "hardened", Has: has})
}
