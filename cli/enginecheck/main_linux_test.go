package enginecheck_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	_ "github.com/sandboxmcp/sandboxmcp/backends/container/inside" // the test binary also is PID 1 of containers
	"github.com/sandboxmcp/sandboxmcp/backends/docker"
	"github.com/sandboxmcp/sandboxmcp/backends/podman"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/cli"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// commandVariable makes the test binary act as the command, which tests kill.
const commandVariable = "SANDBOXMCP_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	// The images have the system's interpreters, so the process backend must find the same.
	os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:"+os.Getenv("PATH"))
	os.Exit(enginetest.Main(m))
}

// engineURLs returns, by kind, functions that start the engines of this machine.
func engineURLs() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{"docker": enginetest.Docker, "podman": enginetest.Podman}
}

// testImages returns test images by language, with this machine's interpreters.
func testImages(t testing.TB, url string) map[string]string {
	t.Helper()
	plain := enginetest.Image(t, url, enginetest.Plain)
	return map[string]string{"python": plain, "node": plain, "shell": plain}
}

// engineOf returns the engine at a URL.
func engineOf(t testing.TB, kind, url string) container.Engine {
	if kind == "podman" {
		return podman.New(podman.Config{Host: url, Dir: stateDir(t)})
	}
	return docker.New(docker.Config{Host: url})
}

// backendOf returns the backend of a kind: "process", "docker" or "podman".
func backendOf(t testing.TB, kind string, ahead int) backends.Backend {
	t.Helper()
	if kind != "process" {
		url := engineURLs()[kind](t)
		return engineBackend(t, engineOf(t, kind, url), testImages(t, url), ahead)
	}
	b := process.New(process.Config{StateDir: stateDir(t)})
	t.Cleanup(func() { b.Close() })
	return b
}

// engineBackend returns a backend with images by language and that many idle containers.
func engineBackend(t testing.TB, engine container.Engine, images map[string]string, ahead ...int) backends.Backend {
	t.Helper()
	c := container.Config{Images: images, Pull: "never", StateDir: stateDir(t), Binary: testProgram(t)}
	for _, n := range ahead {
		c.Ahead = n
	}
	b := container.New(engine, c)
	t.Cleanup(func() { b.Close() })
	return b
}

// stateDir returns a directory with a short name: the paths of containers' sockets below it have at most 107 bytes.
func stateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// bench is a pipeline with one backend, and the sites that its programs may reach.
type bench struct {
	*pipeline.Pipeline
	kind    string
	backend backends.Backend
	memory  *vault.Memory
	sites   *sites
	host    string // directory to mount, with the same content for all backends
}

func newBench(t testing.TB, kind string, town *sites) *bench {
	t.Helper()
	log, err := audit.Open(context.Background(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	store, err := packages.Open(packages.Config{Dir: filepath.Join(t.TempDir(), "packages")})
	if err != nil {
		t.Fatal(err)
	}
	driver, err := os.ReadFile("../examples/kernel.pl")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{kind: kind, backend: backendOf(t, kind, 0), memory: vault.NewMemory(), sites: town}
	b.Pipeline = pipeline.New(pipeline.Config{
		Backends: []backends.Backend{b.backend}, Audit: log, Vault: vault.New(b.memory), Packages: store,
		Runtimes: []pipeline.Runtime{{Name: "perl", Extensions: []string{".pl"}, Command: []string{"perl"}, Kernel: []string{"perl", "{driver}"},
			Driver: string(driver)}},
		// Each backend requires the layers that it promises.
		Profiles: map[string]pipeline.Profile{"hardened": {Base: "hardened"}},
		Egress:   pipeline.Egress{Dialer: &egress.Dialer{Resolver: b.sites, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
	})
	t.Cleanup(func() { b.Close(); store.Close() })
	b.host = hostDir(t)
	return b
}

// hostDir returns a directory with a file, a directory and a link. Anyone may write to it: a server of root must not
// mount a directory that only root can read.
func hostDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "host")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	write := func(name, text string) {
		at := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(at), 0o777)
		os.WriteFile(at, []byte(text), 0o666)
	}
	write("data/one.txt", "one\n")
	write("data/deep/er/two.txt", "two\n")
	write("work/given.txt", "given\n")
	os.Symlink("one.txt", dir+"/data/link")
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSymlink == 0 {
			os.Chmod(path, map[bool]os.FileMode{true: 0o777, false: 0o666}[d.IsDir()])
		}
		return nil
	})
	return dir
}

// sites resolves names to servers on this machine's loopback.
type sites struct {
	mu    sync.Mutex
	names map[string]netip.Addr
}

func (w *sites) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.names[strings.TrimSuffix(host, ".")]; ok {
		return []netip.Addr{a}, nil
	}
	return nil, noSuchName(host)
}
