package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// deaf is an address at which somebody listens, and never says a word. It counts who came.
func deaf(t *testing.T) (address string, came *atomic.Int32) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	came = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			defer c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "unix://" + path, came
}

func loaded(t *testing.T, env ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Options{Env: append([]string{"HOME=" + t.TempDir()}, env...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestDeafEngines does not wait for engines that do not answer longer than it was told to.
func TestDeafEngines(t *testing.T) {
	cfg := loaded(t)
	address, came := deaf(t)
	cfg.Containers.Podman, cfg.Containers.Docker = address, address
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan []surveyed)
	go func() { answers <- survey(ctx, cfg, engineNames()) }()
	hosttest.Until(t, "an engine is asked", func() bool { return came.Load() > 0 })
	cancel()
	for _, s := range <-answers {
		if f := s.findings(); !errors.Is(s.err, context.Canceled) || len(f) != 1 || f[0].OK || f[0].Detail == "" || s.name != f[0].Name {
			t.Errorf("got %+v", f)
		}
	}
}

// TestBackendsInOrder has the configured backend first, and talks to no engine that nothing is asked of.
func TestBackendsInOrder(t *testing.T) {
	for _, test := range []struct {
		configured string
		want       []string
	}{
		{"process", []string{"process", "podman", "docker"}},
		{"podman", []string{"podman", "process", "docker"}},
		{"docker", []string{"docker", "process", "podman"}},
	} {
		cfg := loaded(t, "SANDBOXMCP_BACKEND="+test.configured)
		address, came := deaf(t)
		cfg.Containers.Podman, cfg.Containers.Docker = address, address
		all := backendsOf(cfg, purpose{backend: "process"})
		var names []string
		for _, b := range all {
			names = append(names, b.Name())
			if err := b.Close(); err != nil {
				t.Errorf("close %s: %v", b.Name(), err)
			}
		}
		if !slices.Equal(names, test.want) {
			t.Errorf("got %v, want %v", names, test.want)
		}
		if n := came.Load(); n > 0 {
			t.Errorf("%s: engines were asked %d times, and nobody needed them", test.configured, n)
		}
	}
}

// TestRequires leaves it to the backend what a profile insists on that nobody wrote down.
func TestRequires(t *testing.T) {
	cfg := loaded(t)
	cfg.Profiles["mine"] = config.Profile{Layers: config.Hardened, Require: cfg.Profiles[config.Hardened].Require}
	for name, p := range profiles(cfg) {
		if p.Require != nil {
			t.Errorf("%s requires %v", name, p.Require)
		}
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("profiles:\n  none: {require: []}\n  some: {require: [pid]}\n  all: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{File: file, Env: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	got := profiles(cfg)
	if r := got["none"].Require; r == nil || len(r) != 0 {
		t.Errorf("an empty list became %#v", r)
	}
	if r := got["some"].Require; !slices.Equal(r, []string{backends.LayerPID}) {
		t.Errorf("got %v", r)
	}
	if r := got["all"].Require; r != nil {
		t.Errorf("got %v", r)
	}
}

func TestShowImages(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	podman := surveyed{name: "podman", images: []surveyedImage{
		{language: "python", reference: "a:1", configured: true, Image: container.Image{Size: 123_456_789, Created: now.Add(-49 * time.Hour), Digest: "a@sha256:00"}},
		{language: "node", reference: "b:1", configured: true, err: container.ErrNoImage},
		{language: "shell", reference: "c:1", configured: true, err: &backends.Refusal{Reason: "broken\x1b[31m"}},
		{language: "r", reference: "d:1", Image: container.Image{Size: 1, Created: now}},
	}}
	docker := surveyed{name: "docker", err: &backends.Refusal{Reason: "it is asleep"}}
	for _, test := range []struct {
		name string
		all  []surveyed
		want string
	}{
		{"both", []surveyed{docker, podman}, `ENGINE  LANGUAGE  IMAGE  THERE          SIZE  MADE        DIGEST
podman  python    a:1    yes          123 MB  2 days ago  sha256:00
podman  node      b:1    no                -  -           -
podman  shell     c:1    ?                 -  -           broken\x1b[31m
podman  r         d:1    yes, unused    0 MB  just now    -
docker can't be asked: it is asleep
`},
		{"none", []surveyed{docker}, ""},
	} {
		var b bytes.Buffer
		if err := showImages(&b, test.all, now); err != nil || b.String() != test.want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", test.name, err, &b, test.want)
		}
	}
	if l := podman.listing(); !l.Answers || len(l.Images) != 4 || !l.Images[0].There || l.Images[1].There || l.Images[1].Why != "" || !strings.Contains(l.Images[2].Why, "broken") {
		t.Errorf("got %+v", l)
	}
	if l := docker.listing(); l.Answers || l.Why != "it is asleep" || l.Images == nil {
		t.Errorf("got %+v", l)
	}
}

// TestEnginesGetNoSecrets looks at what the programs get that engines start.
func TestEnginesGetNoSecrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs of this test are scripts")
	}
	t.Setenv("SANDBOXMCP_SECRET_TEAM_KEY", "x")
	t.Setenv("OTHER", "x")
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("OUT", filepath.Join(dir, "out"))
	for engine, program := range map[string]string{"podman": "podman", "docker": "ssh"} {
		os.Remove(os.Getenv("OUT"))
		if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\nexport -p >\"$OUT\"\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cfg := loaded(t)
		cfg.Containers.Docker = "ssh://host.invalid"
		e := engineOf(engine, cfg)
		_, err := e.Info(t.Context())
		e.Close()
		out, _ := os.ReadFile(os.Getenv("OUT"))
		if engine == "podman" && len(out) == 0 && (err == nil || runtime.GOOS != "linux") {
			continue // one runs here, or none can
		}
		if text := string(out); !strings.Contains(text, "OTHER=") || strings.Contains(text, "SANDBOXMCP_SECRET_") {
			t.Errorf("%s (%v): it gets no environment, or one with secrets: %d bytes", program, err, len(text))
		}
	}
}
