package container

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func TestPull(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		fails        bool
		want         string // in the refusal; "" for success
	}{
		{"missing", "", false, ""},
		{"never", never, false, "image pull --backend docker shell"},
		{"a registry that does not answer", "missing", true, "no route"},
	} {
		d, c := newDouble(), config(t)
		var lines []string
		c.Pull, c.Progress = tt.policy, func(line string) { lines = append(lines, line) }
		c.Images["shell"] = "elsewhere:1"
		b := New(d, c)
		d.before = func(_ context.Context, step string) error {
			if step == "pull" && tt.fails {
				return errors.New("no route to registry")
			}
			return nil
		}
		s, err := b.Start(t.Context(), testSpec())
		if err == nil {
			s.Close()
		}
		var refusal *backends.Refusal
		if tt.want == "" && (err != nil || len(lines) == 0) || tt.want != "" &&
			(!errors.As(err, &refusal) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, and %q was said", tt.name, err, lines)
		}
		closeAndCheck(t, b, d)
	}
}

// TestPullOnce has many callers need the same image while it is pulled, and some of them give up.
func TestPullOnce(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Images["shell"] = "elsewhere:1"
	b := New(d, c)
	defer closeAndCheck(t, b, d)
	pulling, answer := make(chan struct{}), make(chan struct{})
	d.before = func(ctx context.Context, step string) error {
		if step == "pull" {
			close(pulling)
			<-answer
		}
		return nil
	}
	impatient, giveUp := context.WithCancel(t.Context())
	var all, left sync.WaitGroup
	start := func(ctx context.Context, want error) {
		s, err := b.Start(ctx, testSpec())
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	all.Go(func() { start(t.Context(), nil) })
	<-pulling
	for range 3 {
		all.Go(func() { start(t.Context(), nil) })
		left.Go(func() { start(impatient, context.Canceled) })
	}
	giveUp()
	left.Wait()
	close(answer)
	all.Wait()
	if len(d.pulled) != 1 {
		t.Errorf("pulled %v", d.pulled)
	}
}

// TestPullCancelled has all callers give up on an image.
func TestPullCancelled(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Images["shell"] = "elsewhere:1"
	b := New(d, c)
	defer closeAndCheck(t, b, d)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	d.before = func(ctx context.Context, step string) error {
		if step == "pull" {
			cancel()
			<-ctx.Done()
			close(ended)
		}
		return nil
	}
	if _, err := b.Start(ctx, testSpec()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended // otherwise the pull is still running
}

func TestArchitecture(t *testing.T) {
	d := newDouble()
	d.images["shell:1"] = Image{ID: "x", Arch: "arm64"}
	b := New(d, config(t))
	defer closeAndCheck(t, b, d)
	if _, err := b.Start(t.Context(), testSpec()); err == nil || !strings.Contains(err.Error(), "arm64") {
		t.Errorf("got %v", err)
	}
}

func TestProbe(t *testing.T) {
	d, c := newDouble(), config(t)
	b := New(d, c)
	defer closeAndCheck(t, b, d)
	p, err := b.Probe(t.Context(), backends.Spec{})
	if err != nil || !p.Usable || len(p.Layers) != len(backends.ContainmentLayers)+2 {
		t.Errorf("got %+v, %v", p, err)
	}
	if len(d.pulled) > 0 {
		t.Errorf("a probe fetched %v", d.pulled)
	}
	if now, _ := d.count(); now != 0 {
		t.Errorf("%d containers are left", now)
	}
	for i, want := range []struct{ name, path, why string }{
		{"python", "/bin/it", "image python:1@sha256:12"}, {"node", "", "image pull --backend docker node"},
		{"shell", "/bin/it", "image shell:1"}, {"r", "", "image pull --backend docker r"},
	} {
		if r := p.Runtimes[i]; r.Name != want.name || r.Path != want.path || !strings.Contains(r.Why.String(), want.why) {
			t.Errorf("got %+v, want %+v", r, want)
		}
	}
	_, before := d.count()
	var many sync.WaitGroup
	for range 12 {
		many.Go(func() {
			if p, err := b.Probe(t.Context(), backends.Spec{}); err != nil || !p.Usable {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	many.Wait()
	if _, ever := d.count(); ever != before {
		t.Errorf("%d containers were made for what is known", ever-before)
	}
	p, err = b.Probe(t.Context(), backends.Spec{Require: []string{backends.LayerTime}})
	if err != nil || p.Usable || p.Why.IsZero() {
		t.Errorf("a layer that can't be had: got %+v, %v", p, err)
	}
}
