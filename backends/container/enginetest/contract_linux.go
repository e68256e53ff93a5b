package enginetest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// mode is a way to obtain containers, with the groups of attacks to run in it.
type mode struct {
	name   string
	ahead  int
	attach bool
	all    []string // with SANDBOXMCP_TEST_LONG; nil is all groups
	whole  []string // with the most tested engine
	part   []string // with the other engines
}

// modes are fresh containers, prestarted ones, prestarted ones with a ready interpreter, and attached streams, as
// for an engine that can mount nothing of this host. Package call tests the connection without an engine;
// cli/enginecheck compares a run in a container on all engines.
var modes = []mode{
	{"fresh", 0, false, nil,
		[]string{"Probe", "Contained", "Files", "Mounts", "Changes", "Isolation", "Container", "Network", "Kernel", "Limits", "Visible",
			"Gateway"},
		[]string{"Probe", "Mounts", "Changes", "Isolation", "Container", "Network", "Visible"}},
	{"pool", 2, false, []string{"Language", "Streams", "Terminal", "Sessions", "Gateway"}, []string{"Language", "Terminal", "Gateway"},
		[]string{"Terminal"}},
	{"warm", 2, false, []string{"Language", "Streams", "Ends", "Contained", "Files", "Artifacts", "Isolation", "Network", "Kernel", "Limits",
		"Programs", "Ready", "Leftovers"},
		[]string{"Language", "Ready"}, []string{"Ready"}},
	{"attached", 0, true, []string{"Language", "Streams", "Terminal", "Ends", "Files", "Changes", "Mains"}, []string{"Streams", "Changes"},
		[]string{"Streams"}},
}

// Contract runs the attacks that all backends share, in containers of an image whose configuration interferes
// wherever it can.
func Contract(t *testing.T, url string, whole bool, newEngine func() container.Engine) {
	c := container.Config{Images: Images(t, url), Pull: "never", StateDir: filepath.Join(t.TempDir(), "state"), Binary: InitBinary(t)}
	checkInterferes(t, url, c.Images["shell"])
	e := newEngine()
	info, err := e.Info(t.Context())
	e.Close()
	if err != nil {
		t.Fatal(err)
	}
	o := backendtest.Options{
		Profile: "hardened", Layers: slices.Clone(backends.EngineLayers), Cgroup: info.Limits, OwnDisks: true, OneAddress: true, Static: true,
		Engine: engineAt(t, url).supervisor.Process.Pid, Left: ListLeftovers(url), Dirs: []string{c.StateDir}, Has: has,
	}
	if abi, err := ll.LandlockGetABIVersion(); err == nil && abi > 0 {
		o.Layers = append(o.Layers, backends.LayerLandlock)
	}
	if info.UserNS {
		o.Layers = append(o.Layers, backends.LayerUser)
	}
	for _, m := range modes {
		c.Ahead, c.Attach, o.Only, o.Warm = m.ahead, m.attach, m.part, m.name == "warm"
		if whole {
			o.Only = m.whole
		}
		if hosttest.Rounds(0, 1) > 0 {
			o.Only = m.all
		}
		if m.attach && !info.Limits { // the user's number has no name in the image, which Language checks first
			o.Only = slices.DeleteFunc(slices.Clone(o.Only), func(group string) bool { return group == "Language" })
		}
		t.Run(m.name, func(t *testing.T) {
			backendtest.Run(t, func(testing.TB) backends.Backend { return container.New(newEngine(), c) }, o)
		})
	}
}

// checkInterferes checks that an engine applies the hostile configuration.
func checkInterferes(t *testing.T, url, image string) {
	t.Helper()
	text, err := callAPI(strings.TrimPrefix(url, "unix://"), "GET", "/v1.40/images/"+image+"/json", nil)
	var is struct{ Config struct{ WorkingDir string } }
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if want := hostileConfig()["WorkingDir"]; err != nil || is.Config.WorkingDir != want {
		t.Fatalf("%s starts in %q, want %q: %v", image, is.Config.WorkingDir, want, err)
	}
}

// Hidden checks that containers don't show the server's hidden files, whatever is mounted.
func Hidden(t *testing.T, url string, newEngine func() container.Engine) {
	backendtest.Hidden(t, func(t testing.TB, hidden []string) backends.Backend {
		return container.New(newEngine(), container.Config{Images: Images(t, url), Pull: "never", StateDir: filepath.Join(t.TempDir(), "state"),
			Binary: InitBinary(t), Hidden: hidden})
	}, backendtest.Options{Profile: "hardened", Has: has})
}
