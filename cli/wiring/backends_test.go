package wiring

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// TestBackendsInOrder checks that the configured backend comes first, and that unused engines are not contacted.
func TestBackendsInOrder(t *testing.T) {
	for _, test := range []struct {
		configured string
		want       []string
	}{
		{"process", []string{"process", "podman", "docker", "kubernetes"}},
		{"podman", []string{"podman", "process", "docker", "kubernetes"}},
		{"docker", []string{"docker", "process", "podman", "kubernetes"}},
		{"kubernetes", []string{"kubernetes", "process", "podman", "docker"}},
	} {
		cfg := newTestParts(t, "SANDBOXMCP_BACKEND="+test.configured)
		path := filepath.Join(t.TempDir(), "s")
		engine, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		cfg.Containers.Podman, cfg.Containers.Docker = "unix://"+path, "unix://"+path
		all := Backends(cfg, Purpose{Backend: "process"})
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
		engine.SetDeadline(time.Now())
		if c, err := engine.Accept(); err == nil {
			c.Close()
			t.Errorf("%s: an engine was asked, and nobody needed it", test.configured)
		}
	}
}

// TestRequires checks that the backend decides the requirements of a profile that lists none.
func TestRequires(t *testing.T) {
	cfg := newTestParts(t)
	cfg.Profiles["mine"] = config.Profile{Layers: config.Hardened, Require: cfg.Profiles[config.Hardened].Require}
	for name, p := range profiles(cfg) {
		if p.Require != nil {
			t.Errorf("%s requires %v", name, p.Require)
		}
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("profiles:\n  none: {require: none}\n  some: {require: [pid]}\n  all: {}\n"), 0o600); err != nil {
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

// TestEnginesGetNoSecrets checks the environment of programs that engines start.
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
		cfg := newTestParts(t)
		cfg.Containers.Docker = "ssh://host.invalid"
		e := Engine(engine, cfg)
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

func newTestParts(t *testing.T, env ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Options{Env: append([]string{"HOME=" + t.TempDir()}, env...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
