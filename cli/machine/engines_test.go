package machine

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

// listenDeaf listens at an address and never answers. It counts connections.
func listenDeaf(t *testing.T) (address string, came *atomic.Int32) {
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

// TestDeafEngines checks that the timeout bounds the wait for engines that do not answer.
func TestDeafEngines(t *testing.T) {
	cfg := deafConfig(t)
	address, came := listenDeaf(t)
	cfg.Containers.Podman, cfg.Containers.Docker = address, address
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan []engineSurvey)
	go func() { answers <- surveyEngines(ctx, cfg, wiring.EngineNames()) }()
	hosttest.Until(t, "an engine is asked", func() bool { return came.Load() > 0 })
	cancel()
	for _, s := range <-answers {
		if f := s.findings(); !errors.Is(s.err, context.Canceled) || len(f) != 1 || f[0].OK || f[0].Detail == "" || s.Images == nil ||
			s.Answers || s.Why != f[0].Detail || s.Engine != f[0].Name {
			t.Errorf("got %+v", f)
		}
	}
}

func TestShowImages(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	podman := engineSurvey{Engine: "podman", Answers: true, Images: []imageState{
		newImageState("python", "a:1", true, container.Image{Size: 123_456_789, Created: now.Add(-49 * time.Hour), Digest: "a@sha256:00"}, nil),
		newImageState("node", "b:1", true, container.Image{}, container.ErrNoImage),
		newImageState("shell", "c:1", true, container.Image{}, &backends.Refusal{Reason: "broken\x1b[31m"}),
		newImageState("r", "d:1", false, container.Image{Size: 1, Created: now}, nil),
	}}
	docker := engineSurvey{Engine: "docker", Why: "it is asleep"}
	for _, test := range []struct {
		name string
		all  []engineSurvey
		want string
	}{
		{"both", []engineSurvey{docker, podman}, `ENGINE  LANGUAGE  IMAGE  THERE          SIZE  MADE        DIGEST
podman  python    a:1    yes          123 MB  2 days ago  sha256:00
podman  node      b:1    no                -  -           -
podman  shell     c:1    ?                 -  -           broken\x1b[31m
podman  r         d:1    yes, unused    0 MB  just now    -
docker can't be asked: it is asleep
`},
		{"none", []engineSurvey{docker}, ""},
	} {
		var b bytes.Buffer
		if err := writeImages(&b, test.all, now); err != nil || b.String() != test.want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", test.name, err, &b, test.want)
		}
	}
	if l := podman.Images; !l[0].There || l[1].There || l[1].Why != "" || !strings.Contains(l[2].Why, "broken") {
		t.Errorf("got %+v", l)
	}
}

func deafConfig(t *testing.T) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Options{Env: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
