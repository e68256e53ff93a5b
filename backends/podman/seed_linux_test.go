package podman

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestSeed fills a volume, also one that was left half-filled, and reads it in a container.
func TestSeed(t *testing.T) {
	e := testEngine(t)
	id := withImage(t, e)
	archive := pack(t, map[string][]byte{"bin/one": []byte("whole"), "bin/two": []byte("whole")}, container.SeedEnd)
	labels := map[string]string{container.LabelSeed: "1"}
	const name = "podman-test-seed"
	removeVolume := func() {
		hosttest.Until(t, "Podman has removed the containers", func() bool {
			list, err := e.List(t.Context(), container.LabelInstance)
			return err == nil && len(list) == 0
		})
		sendRequest(t, e, http.MethodDelete, "/volumes/"+name, url.Values{"force": {"true"}})
	}

	broken := io.MultiReader(bytes.NewReader(archive[:1200]), failing{})
	if err := e.Seed(t.Context(), name, labels, broken, id); err == nil {
		t.Fatal("a truncated archive is not an error")
	}
	for range 2 {
		if err := e.Seed(t.Context(), name, labels, bytes.NewReader(archive), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Seed(t.Context(), name, labels, failing{}, id); err != nil {
		t.Errorf("a volume that is there is filled again: %v", err)
	}
	c := basicContainer(id, "facts")
	c.Binds = []container.Bind{{Host: name, Inside: "/seed"}}
	out, _, _ := run(t, e, c)
	f := unmarshal(t, out)
	if f["/seed/bin/one"] != "whole" || f["write /seed"] != "read-only file system" {
		t.Errorf("inside: %q, %q", f["/seed/bin/one"], f["write /seed"])
	}
	if list, err := e.List(t.Context(), container.LabelSeed); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	// If somebody removes it and the engine replaces it by an empty one, it is filled again.
	removeVolume()
	c = basicContainer(id, "facts")
	c.Binds = []container.Bind{{Host: name, Inside: "/seed"}}
	if out, _, _ := run(t, e, c); unmarshal(t, out)["/seed/bin/one"] == "whole" {
		t.Error("the volume is not empty")
	}
	if err := e.Seed(t.Context(), name, labels, bytes.NewReader(archive), id); err != nil {
		t.Fatal(err)
	}
	c.Name += "-filled"
	if out, _, _ := run(t, e, c); unmarshal(t, out)["/seed/bin/one"] != "whole" {
		t.Error("the volume was not filled again")
	}
	removeVolume()
}

// TestSeedWaits checks that nobody fills a volume while somebody else does.
func TestSeedWaits(t *testing.T) {
	e := testEngine(t)
	id := withImage(t, e)
	const name = "podman-test-busy"
	other := basicContainer(id, "sleep")
	other.Name = name + "-seed"
	helper := create(t, e, other)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	archive := pack(t, nil, container.SeedEnd)
	if err := e.Seed(ctx, name, nil, bytes.NewReader(archive), id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := e.Remove(t.Context(), helper); err != nil {
		t.Fatal(err)
	}
	if err := e.Seed(t.Context(), name, nil, bytes.NewReader(archive), id); err != nil {
		t.Error(err)
	}
	sendRequest(t, e, http.MethodDelete, "/volumes/"+name, url.Values{"force": {"true"}})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no more") }

// TestNoGPU checks the refusal if Podman has no GPU, and that no container is left.
func TestNoGPU(t *testing.T) {
	e := testEngine(t)
	c := basicContainer(withImage(t, e), "exit", "0")
	c.GPUs = []string{"0"}
	_, err := e.Create(t.Context(), c)
	r := (*backends.Refusal)(nil)
	if !errors.As(err, &r) || !strings.Contains(r.Remedy.String(), "nvidia-ctk") {
		t.Errorf("got %v, want a refusal", err)
	}
	if list, err := e.List(t.Context(), container.LabelInstance); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// TestTwice creates a container whose name exists: that is an error, and the other container stays.
func TestTwice(t *testing.T) {
	e := testEngine(t)
	c := basicContainer(withImage(t, e), "sleep")
	create(t, e, c)
	if _, err := e.Create(t.Context(), c); err == nil {
		t.Error("made twice")
	}
	if list, err := e.List(t.Context(), container.LabelInstance); err != nil || len(list) != 1 {
		t.Errorf("got %v, %v", list, err)
	}
}

// TestTricks creates a container from an image whose /etc is a link: our writes stay inside.
func TestTricks(t *testing.T) {
	e := testEngine(t)
	outside := t.TempDir()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	w.WriteHeader(&tar.Header{Name: "root/etc", Typeflag: tar.TypeSymlink, Linkname: outside})
	text := []byte("FROM scratch\nCOPY root/ /\n")
	w.WriteHeader(&tar.Header{Name: "Containerfile", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))})
	w.Write(text)
	w.Close()
	if err := e.Build(t.Context(), "localhost/tricks:1", &b, nil, nil); err != nil {
		t.Fatal(err)
	}
	i, err := e.Image(t.Context(), "localhost/tricks:1")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := e.Create(t.Context(), basicContainer(i.ID, "exit", "0")); err == nil {
		e.Remove(t.Context(), id)
	} else {
		t.Log(err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
}
