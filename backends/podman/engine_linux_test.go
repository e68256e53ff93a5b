package podman

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// image is the image of the tests' containers: one static program, and a configuration that interferes.
const image = "localhost/guest:1"

// testEngine returns an engine that is connected to the Podman that all tests share.
func testEngine(t *testing.T) *Engine {
	t.Helper()
	needRoot(t)
	return connected(t, enginetest.Podman(t))
}

func connected(t *testing.T, host string) *Engine {
	t.Helper()
	e := New(Config{Host: host, Dir: t.TempDir()}).(*Engine)
	t.Cleanup(func() { e.Close() })
	if _, err := e.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// engineIn returns an engine with a service and a store of its own.
func engineIn(t *testing.T, dir string) *Engine {
	t.Helper()
	e := New(Config{Service: []string{"podman", "--root", dir + "/root", "--runroot", dir + "/run"}, Dir: t.TempDir()}).(*Engine)
	t.Cleanup(func() { e.Close() })
	if _, err := e.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// needRoot skips the test for ordinary users, whom TestRootless covers.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "these containers are of users that only root has")
	}
}

// newStore makes a directory for Podman's images and containers, and checks that it is empty at the end.
func newStore(t *testing.T) string {
	t.Helper()
	needRoot(t)
	enginetest.Podman(t)                    // or skip the test
	dir, err := os.MkdirTemp("", "podman-") // t.TempDir is too long for socket paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Podman's cleanup of containers may still run, and mount the store again.
		hosttest.Until(t, "the store is removed", func() bool {
			unmount(t, dir)
			return os.RemoveAll(dir) == nil
		})
	})
	return dir
}

// unmount unmounts a store, in which no container may be mounted.
func unmount(t *testing.T, dir string) {
	t.Helper()
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	lines := strings.Split(string(mounts), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 4 && paths.Below(f[4], dir) {
			syscall.Unmount(f[4], syscall.MNT_DETACH)
			if f[4] != dir+"/root/overlay" {
				t.Errorf("%s is still mounted", f[4])
			}
		}
	}
}

// guest compiles the program that runs in the containers.
var guest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+"/guest", "./testdata/guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build guest: %w: %s", err, text)
	}
	return os.ReadFile(dir + "/guest")
})

func program(t *testing.T) []byte {
	t.Helper()
	data, err := guest()
	if err != nil {
		hosttest.SkipMissing(t, "go", err.Error())
	}
	return data
}

// pack returns an archive of files, followed by empty ones.
func pack(t *testing.T, files map[string][]byte, last ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range append(slices.Sorted(maps.Keys(files)), last...) {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		w.Write(files[name])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// built is the image's id in the shared Podman, once it is built.
var built string

// withImage builds the image in the shared Podman if it is missing, and returns its id.
func withImage(t *testing.T, e *Engine) string {
	t.Helper()
	if built == "" {
		built = build(t, e)
	}
	return built
}

// build builds the image and returns its id.
func build(t *testing.T, e *Engine) string {
	t.Helper()
	var last string
	err := e.Build(t.Context(), image, bytes.NewReader(pack(t, map[string][]byte{
		"guest": program(t),
		"Containerfile": []byte(`FROM scratch
COPY guest /guest
ENV FROM_IMAGE=1
USER 0
ENTRYPOINT ["/nothing"]
CMD ["nothing"]
WORKDIR /elsewhere
VOLUME /data
HEALTHCHECK CMD ["/guest", "exit", "1"]
STOPSIGNAL SIGUSR1
LABEL io.containers.capabilities=NET_RAW
`),
	})), map[string]string{container.LabelImage: "guest"}, func(line string) { last = line })
	if err != nil {
		t.Fatalf("%v (%s)", err, last)
	}
	found, err := e.Image(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	return found.ID
}

var serial int

// basicContainer returns a container that runs guest with args.
func basicContainer(id string, args ...string) container.Container {
	serial++
	return container.Container{
		Name: fmt.Sprintf("podman-test-%d-%d", os.Getpid(), serial), Image: id, Args: append([]string{"/guest"}, args...),
		User: "1879048195:1879048195", Hostname: "sandbox", Labels: map[string]string{container.LabelInstance: "test"},
		Resources: container.Resources{Memory: 64 << 20, PIDs: 50, CPU: 0.5}, Files: 256, Stdin: true,
	}
}

// create creates a container and removes it at the end of the test.
func create(t *testing.T, e *Engine, c container.Container) string {
	t.Helper()
	id, err := e.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Remove(context.Background(), id); err != nil {
			t.Error(err)
		}
	})
	return id
}

func start(t *testing.T, e *Engine, id string) {
	t.Helper()
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// run runs a container to its end.
func run(t *testing.T, e *Engine, c container.Container) (stdout, stderr string, exit container.Exit) {
	t.Helper()
	id := create(t, e, c)
	var b bytes.Buffer
	conn, err := e.Attach(t.Context(), id, &b)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start(t, e, id)
	out, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	exit, err = e.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), b.String(), exit
}

// sendRequest sends a request that only tests need.
func sendRequest(t *testing.T, e *Engine, method, path string, query url.Values) {
	t.Helper()
	if err := e.call(t.Context(), request{method: method, path: path, query: query}, nil); err != nil {
		t.Fatal(err)
	}
}

func kill(t *testing.T, e *Engine, id string) {
	t.Helper()
	sendRequest(t, e, http.MethodPost, "/containers/"+id+"/kill", url.Values{"signal": {"KILL"}})
}

func unmarshal(t *testing.T, text string) map[string]string {
	t.Helper()
	var m map[string]string
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return m
}

// cgroup reads the limits of a running container from outside.
func cgroup(t *testing.T, e *Engine, id string) map[string]string {
	t.Helper()
	is, err := e.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", is.Container.State.Pid))
	if err != nil {
		t.Fatal(err)
	}
	f := map[string]string{"/sys/fs/cgroup/memory.max": "error"}
	for line := range strings.Lines(string(lines)) {
		p := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, name := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max", "cpu.cfs_quota_us", "memory.max",
			"cpu.max"} {
			data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", p[1], p[2], name))
			if err == nil {
				f[filepath.Join("/sys/fs/cgroup", p[1], name)] = string(data)
			}
		}
	}
	return f
}
