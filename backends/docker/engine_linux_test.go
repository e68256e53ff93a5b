package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// guests is the state that all tests of this process share: the engine's images.
var guests struct {
	sync.Once
	err error
}

// testEngine returns an engine that is connected to the tests' dockerd, which has the images.
func testEngine(t *testing.T) *docker {
	t.Helper()
	e := connected(t, enginetest.Docker(t))
	guests.Do(func() { guests.err = images(e) })
	if guests.err != nil {
		t.Fatal(guests.err)
	}
	return e
}

func connected(t *testing.T, url string) *docker {
	t.Helper()
	e := New(Config{Host: url}).(*docker)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// meddling is a Dockerfile that sets everything an image can set for its containers.
const meddling = `FROM guest:1
ENTRYPOINT ["/guest", "exit", "77"]
CMD ["more"]
USER 4242
WORKDIR /nowhere
VOLUME /data /etc /work
ENV INJECTED=1 LD_PRELOAD=/evil.so PATH=/image/bin
EXPOSE 80
STOPSIGNAL SIGCONT
HEALTHCHECK --interval=1s CMD ["/guest", "exit", "0"]
LABEL other=1
`

// images builds guest:1 from a static program, and meddling:1 with the settings above.
func images(e *docker) error {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	guest := filepath.Join(dir, "guest")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", guest, "./testdata/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build guest: %w: %s", err, out)
	}
	program, err := os.ReadFile(guest)
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := e.connect(ctx)
	if err != nil {
		return err
	}
	root := archive(map[string]string{"guest": string(program), "etc/passwd": "u:x:5000:5000::/:/\n", "data/kept": "of the image\n"})
	r, err := l.api.ImageImport(ctx, client.ImageImportSource{Source: root, SourceName: "-"}, "guest:1",
		client.ImageImportOptions{Changes: []string{"LABEL test=yes"}})
	if err != nil {
		return err
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || bytes.Contains(b, []byte("errorDetail")) {
		return fmt.Errorf("import guest: %v: %s", err, b)
	}
	return e.Build(ctx, "meddling:1", archive(map[string]string{"Containerfile": meddling}), nil, nil)
}

// archive returns a tar of executable files, followed by empty ones.
func archive(files map[string]string, last ...string) io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))})
		_, _ = io.WriteString(w, content)
	}
	for _, name := range last {
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o444})
	}
	_ = w.Close()
	return &b
}

// wholeArchive returns an archive for a volume, with the end marker.
func wholeArchive(files map[string]string) io.Reader { return archive(files, container.SeedEnd) }

var names atomic.Int64

// plan returns a closed container that runs guest with args.
func plan(t *testing.T, e *docker, image string, args ...string) container.Container {
	t.Helper()
	i, err := e.Image(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"OURS=1"}
	for _, kv := range i.Env {
		if name, _, _ := strings.Cut(kv, "="); name == "PATH" {
			env = append(env, kv)
		} else {
			env = append(env, name+"=")
		}
	}
	return container.Container{
		Name:      fmt.Sprintf("c%d", names.Add(1)),
		Image:     i.ID,
		Args:      append([]string{"/guest"}, args...),
		User:      "1879048200:1879048200",
		Hostname:  "sandbox",
		Env:       env,
		Volumes:   i.Volumes,
		Labels:    map[string]string{"of": t.Name()},
		Tmpfs:     []container.Tmpfs{{Path: "/work", Size: 8 << 20, Mode: 0o755, Exec: true}},
		Shm:       4 << 20,
		Resources: container.Resources{Memory: 64 << 20, PIDs: 50, CPU: 64},
		Files:     256,
		Sysctls:   map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
		Stdin:     true,
	}
}

// create creates a container and removes it at the end of the test.
func create(t *testing.T, e *docker, c container.Container) string {
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

// run runs a container to its end, and returns its output and exit.
func run(t *testing.T, e *docker, c container.Container) (stdout, stderr string, x container.Exit) {
	t.Helper()
	ctx := t.Context()
	id := create(t, e, c)
	var errs strings.Builder
	s, err := e.Attach(ctx, id, &errs)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := e.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	x, err = e.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), errs.String(), x
}
