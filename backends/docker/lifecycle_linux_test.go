package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// volumes lists the anonymous volumes.
func volumes(t *testing.T, l *link) []string {
	t.Helper()
	r, err := l.api.VolumeList(t.Context(), client.VolumeListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range r.Items {
		if len(v.Name) == 64 { // a hash: the volume is anonymous
			names = append(names, v.Name)
		}
	}
	return names
}

func TestInfo(t *testing.T) {
	e := testEngine(t)
	before, err := e.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	i, err := e.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !i.Local || i.Rootless || i.Arch == "" || i.Version == "" {
		t.Errorf("got %+v", i)
	}
	t.Logf("%+v", i)
	after, err := e.List(t.Context(), "")
	if err != nil || len(after) != len(before) {
		t.Errorf("left behind by Info: %+v, %v", after, err)
	}
}

// TestInfoNotLocal hides the directory from the engine, as a forwarded socket or a container around this process
// does.
func TestInfoNotLocal(t *testing.T) {
	e := testEngine(t)
	l, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(l *link){
		"other kernel":  func(l *link) { l.info.KernelVersion += "-linuxkit" },
		"other host":    func(l *link) { l.info.Name = "docker-desktop" },
		"tcp":           func(l *link) { l.endpoint.Host = "tcp://127.0.0.1:1" },
		"gVisor":        func(l *link) { l.info.DefaultRuntime = "runsc" },
		"none of these": func(*link) {},
	} {
		other := &link{api: l.api, endpoint: l.endpoint, info: l.info}
		change(other)
		if got, err := other.isLocal(t.Context(), filepath.Join(t.TempDir(), "not", "yet")); err != nil || got != (name == "none of these") {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if there, err := l.seesPath(t.Context(), filepath.Join(t.TempDir(), "missing")); there || err != nil {
		t.Errorf("a missing file: got %v, %v", there, err)
	}
}

// TestAttach checks that bytes pass attached streams unchanged in both directions, and that the end of input
// arrives.
func TestAttach(t *testing.T) {
	e := testEngine(t)
	id := create(t, e, plan(t, e, "guest:1", "echo"))
	var stderr engine.Tail
	s, err := e.Attach(t.Context(), id, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	done := waitExit(t, e, id)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	sent, got := sha256.New(), sha256.New()
	const size = 16 << 20
	var wg sync.WaitGroup
	wg.Go(func() {
		// All byte values, including those that detach terminals.
		if _, err := io.CopyN(io.MultiWriter(s, sent), rand.NewChaCha8([32]byte{}), size); err != nil {
			t.Error(err)
		}
	})
	if _, err := io.CopyN(got, s, size); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if hex.EncodeToString(sent.Sum(nil)) != hex.EncodeToString(got.Sum(nil)) {
		t.Error("what came back is not what was sent")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if x := <-done; x != (container.Exit{}) {
		t.Errorf("after the end of input: got %+v", x)
	}
	if !strings.Contains(stderr.String(), "ready") {
		t.Errorf("standard error: got %q", stderr.String())
	}
}

func TestUpdate(t *testing.T) {
	e := testEngine(t)
	c := plan(t, e, "guest:1", "sleep")
	id := create(t, e, c)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l, _ := e.connect(t.Context())
	for _, r := range []container.Resources{
		{Memory: 128 << 20, PIDs: 60, CPU: 0.5},
		{Memory: 32 << 20},
		{PIDs: 70, CPU: 1000},
	} {
		if err := e.Update(t.Context(), id, r); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
	}
	i, err := l.api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := i.Container.HostConfig
	if h.Memory != 32<<20 || h.MemorySwap != 32<<20 || h.PidsLimit == nil || *h.PidsLimit != 70 || h.NanoCPUs != int64(l.info.NCPU)*1e9 {
		t.Errorf("got memory %d, with swap %d, PIDs %v, CPU %d", h.Memory, h.MemorySwap, h.PidsLimit, h.NanoCPUs)
	}
	// The kernel agrees.
	pid := strconv.Itoa(i.Container.State.Pid)
	b, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 && f[1] == "memory" {
			limit, err := os.ReadFile("/sys/fs/cgroup/memory" + f[2] + "/memory.limit_in_bytes")
			if err == nil && strings.TrimSpace(string(limit)) != strconv.Itoa(32<<20) {
				t.Errorf("the kernel has %s", limit)
			}
		}
	}
}

// TestRemove removes a container from several goroutines and the engine at once: all see it gone.
func TestRemove(t *testing.T) {
	e := testEngine(t)
	for range hosttest.Rounds(2, 5) {
		id := create(t, e, plan(t, e, "guest:1", "sleep"))
		if err := e.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := e.Remove(t.Context(), id); err != nil {
					t.Error(err)
				}
				list, err := e.List(t.Context(), "of="+t.Name())
				if err != nil || len(list) > 0 {
					t.Errorf("after Remove: %+v, %v", list, err)
				}
			})
		}
		wg.Wait()
	}
	if err := e.Remove(t.Context(), "sandboxmcp-never-was"); err != nil {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	e := testEngine(t)
	a, b := create(t, e, plan(t, e, "guest:1", "sleep")), create(t, e, plan(t, e, "guest:1", "sleep"))
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]int{"of": 2, "of=" + t.Name(): 2, "of=other": 0} {
		list, err := e.List(t.Context(), label)
		if err != nil || len(list) != want {
			t.Errorf("%s: got %+v, %v", label, list, err)
		}
		for _, c := range list {
			if c.ID != a && c.ID != b || c.Labels["of"] != t.Name() {
				t.Errorf("%s: got %+v", label, c)
			}
		}
	}
}

func TestImages(t *testing.T) {
	e := testEngine(t)
	i, err := e.Image(t.Context(), "meddling:1")
	if err != nil {
		t.Fatal(err)
	}
	if len(i.Env) != 3 || strings.Join(i.Volumes, " ") != "/data /etc /work" || i.Digest != "" || i.Labels["other"] != "1" ||
		!strings.HasPrefix(i.ID, "sha256:") || i.Size == 0 || i.Created.IsZero() || strings.Join(i.Names, " ") != "meddling:1" {
		t.Errorf("got %+v", i)
	}
	all, err := e.Images(t.Context(), "test=yes")
	if err != nil || len(all) != 2 || all[0].Names[0] != "guest:1" {
		t.Errorf("got %+v, %v", all, err)
	}
	for _, ref := range []string{"no-such-image", "docker.io/library/none:1", "sha256:" + strings.Repeat("0", 64)} {
		if _, err := e.Image(t.Context(), ref); !errors.Is(err, container.ErrNoImage) {
			t.Errorf("%s: got %v", ref, err)
		}
	}
}

func TestBuild(t *testing.T) {
	e := testEngine(t)
	var lines []string
	files := map[string]string{"Containerfile": "FROM guest:1\nCOPY hello /hello\nENV A=1\n", "hello": "world"}
	err := e.Build(t.Context(), "built:1", archive(files), map[string]string{"made": "here"}, func(s string) { lines = append(lines, s) })
	if err != nil {
		t.Fatal(err)
	}
	i, err := e.Image(t.Context(), "built:1")
	if err != nil || i.Labels["made"] != "here" || strings.Join(i.Env, " ") == "" {
		t.Errorf("got %+v, %v", i, err)
	}
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "COPY hello /hello") || strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("said %q", text)
	}
	files["Containerfile"] = "FROM guest:1\nCOPY missing /\n"
	if err := e.Build(t.Context(), "built:2", archive(files), nil, nil); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a build that can't be: got %v", err)
	}
}

func TestPullFails(t *testing.T) {
	t.Parallel()
	e := testEngine(t)
	if err := e.Pull(t.Context(), "127.0.0.1:1/none:1", nil); err == nil {
		t.Error("an image from nowhere was pulled")
	}
	if err := e.Pull(t.Context(), "-X", nil); !isRefusal(err, "invalid reference", "NAME:TAG") {
		t.Errorf("got %v", err)
	}
}

// TestSeed has several servers seed a volume at once: it is complete for each when its call returns.
func TestSeed(t *testing.T) {
	e := testEngine(t)
	l, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := l.api.VolumeRemove(context.Background(), "seeded", client.VolumeRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	content := strings.Repeat("a whole lot of bytes\n", 200_000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := testEngine(t).Seed(t.Context(), "seeded", map[string]string{"k": "v"}, wholeArchive(map[string]string{"big": content}),
				"guest:1"); err != nil {
				t.Error(err)
				return
			}
			c := plan(t, e, "guest:1", "exit", "0")
			c.Binds = []container.Bind{{Host: "seeded", Inside: "/mounted"}}
			id := create(t, e, c)
			s, err := l.api.ContainerStatPath(t.Context(), id, client.ContainerStatPathOptions{Path: "/mounted/big"})
			if err != nil || s.Stat.Size != int64(len(content)) {
				t.Errorf("got %+v, %v", s, err)
			}
		})
	}
	wg.Wait()
	list, err := e.List(t.Context(), "k")
	if err != nil || len(list) != 0 {
		t.Errorf("helpers are left: %+v, %v", list, err)
	}
}

// TestSeedWaits checks that nobody fills a volume while somebody else does.
func TestSeedWaits(t *testing.T) {
	t.Parallel()
	e := testEngine(t)
	l, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := plan(t, e, "guest:1", "sleep")
	other.Name = "busy-seed"
	id := create(t, e, other)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := e.Seed(ctx, "busy", nil, wholeArchive(nil), "guest:1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := e.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := e.Seed(t.Context(), "busy", nil, wholeArchive(nil), "guest:1"); err != nil {
		t.Error(err)
	}
	if _, err := l.api.VolumeRemove(t.Context(), "busy", client.VolumeRemoveOptions{Force: true}); err != nil {
		t.Error(err)
	}
}

// TestSeedHalf checks that a volume that was left half-filled is filled again.
func TestSeedHalf(t *testing.T) {
	t.Parallel()
	e := testEngine(t)
	l, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := l.api.VolumeRemove(context.Background(), "half", client.VolumeRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if err := e.Seed(t.Context(), "half", nil, io.MultiReader(
		io.LimitReader(wholeArchive(map[string]string{"file": strings.Repeat("x", 1<<20)}), 1<<19), broken{}), "guest:1"); err == nil {
		t.Fatal("half an archive was good enough")
	}
	c := plan(t, e, "guest:1", "state")
	c.Binds = []container.Bind{{Host: "half", Inside: "/mounted"}}
	if err := e.Seed(t.Context(), "half", nil, wholeArchive(map[string]string{"file": "whole"}), "guest:1"); err != nil {
		t.Fatal(err)
	}
	if s := inspectInside(t, e, c); s.Binds != "whole" {
		t.Errorf("got %q", s.Binds)
	}
	// A complete volume is left alone.
	if err := testEngine(t).Seed(t.Context(), "half", nil, wholeArchive(map[string]string{"file": "other"}), "guest:1"); err != nil {
		t.Fatal(err)
	}
	c.Name += "again"
	if s := inspectInside(t, e, c); s.Binds != "whole" {
		t.Errorf("after another seed: got %.20q", s.Binds)
	}
	// If somebody removes it and the engine replaces it by an empty one, it is filled again.
	if err := e.Seed(t.Context(), "half", nil, broken{}, "guest:1"); err != nil {
		t.Errorf("one that is whole: %v", err)
	}
	if err := e.Remove(t.Context(), c.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := l.api.VolumeRemove(t.Context(), "half", client.VolumeRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	c.Name += "empty"
	if s := inspectInside(t, e, c); s.Binds != "" {
		t.Errorf("in an empty volume: got %.20q", s.Binds)
	}
	if err := e.Seed(t.Context(), "half", nil, wholeArchive(map[string]string{"file": "new"}), "guest:1"); err != nil {
		t.Fatal(err)
	}
	c.Name += "filled"
	if s := inspectInside(t, e, c); s.Binds != "new" {
		t.Errorf("after it was removed: got %q", s.Binds)
	}
	if err := e.Seed(t.Context(), "unmade", nil, wholeArchive(nil), "no-such-image:1"); !errors.Is(err, container.ErrNoImage) {
		t.Errorf("without an image: got %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
