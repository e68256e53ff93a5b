package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// config returns a configuration for the double, in a state directory of the test's own.
func config(t *testing.T) Config {
	t.Setenv("XDG_RUNTIME_DIR", "")
	return Config{Images: map[string]string{"shell": "shell:1", "python": "python:1", "node": "node:1", "r": "r:1"}, StateDir: t.TempDir(),
		Binary: staticProgram(t)}
}

// staticProgram makes a file that could be an init: it has the headers of a program.
func staticProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "static")
	if err := os.WriteFile(path, elfFile(false), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// closeAndCheck closes a backend, and checks that nothing of it is left.
func closeAndCheck(t *testing.T, b *Backend, d *double) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if now, _ := d.count(); now != 0 {
		t.Errorf("%d containers are left", now)
	}
	filepath.WalkDir(b.config.StateDir, func(path string, e fs.DirEntry, err error) error {
		if left, _ := filepath.Rel(b.config.StateDir, path); err == nil && left != "." && left != "instances" && left != "c" {
			t.Errorf("%s is left", left)
		}
		return nil
	})
}

func testSpec() backends.Spec { return backends.Spec{ID: "run", Language: "shell"} }

func TestStart(t *testing.T) {
	for _, attached := range []bool{false, true} {
		d, c := newDouble(), config(t)
		c.Attach = attached
		b := New(d, c)
		spec := testSpec()
		spec.Language = "python"
		dir := t.TempDir()
		os.Chmod(dir, 0o777)
		spec.Mounts = []backends.Mount{{Host: dir, Inside: "/data", Write: true}}
		spec.Require = []string{backends.LayerLandlock}
		s, err := b.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		var seen bytes.Buffer
		r, err := s.Exec(t.Context(), backends.Command{Args: []string{"spec"}}, backends.Streams{Stdout: &seen})
		if err != nil || r.Ended != backends.EndedOK {
			t.Fatal(r, err)
		}
		var inside backends.Spec
		if err := json.Unmarshal(seen.Bytes(), &inside); err != nil {
			t.Fatal(err, seen.String())
		}
		if strings.Contains(seen.String(), dir) || inside.Mounts[0].Inside != "/data" || inside.Limits != backends.DefaultLimits {
			t.Errorf("the init was sent %s", seen.String())
		}
		made := d.started[0]
		if made.Labels[LabelID] != "run" {
			t.Errorf("the labels are %q", made.Labels)
		}
		if slices.Contains(made.Args, "-") != attached || made.Stdin != attached || len(d.seeded) > 0 != attached {
			t.Errorf("attached %v: args %q, stdin %v, seeded %v", attached, made.Args, made.Stdin, d.seeded)
		}
		var names []string
		for _, l := range r.Contained.Layers {
			names = append(names, l.Name)
			if l.Name == backends.LayerMount && !strings.Contains(l.Detail, "python:1@sha256:12") {
				t.Errorf("the image's digest is not in %q", l.Detail)
			}
			if l.Name == backends.LayerUser && l.InForce {
				t.Error("the init was believed about a layer that is the engine's")
			}
		}
		if want := append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit); !slices.Equal(names, want) {
			t.Errorf("layers %v, want %v", names, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		closeAndCheck(t, b, d)
	}
}

// TestCancelled ends the context, or the backend, at each step.
func TestCancelled(t *testing.T) {
	for _, step := range []string{"info", "image", "pull", "seed", "create", "attach", "start", "greet"} {
		for _, closed := range []bool{false, true} {
			d, c := newDouble(), config(t)
			c.Attach = step == "seed" || step == "attach"
			if step == "pull" {
				c.Images["shell"] = "elsewhere:1"
			}
			b := New(d, c)
			ctx, cancel := context.WithCancel(t.Context())
			end := func() {
				if closed {
					go b.Close()
				} else {
					cancel()
				}
			}
			if step == "greet" {
				d.orders = []string{"hang"}
				time.AfterFunc(100*time.Millisecond, end)
			}
			d.before = func(ctx context.Context, s string) error {
				if s == step {
					end()
					if closed {
						<-b.ctx.Done() // nevertheless the engine completes the request
					}
				}
				return nil
			}
			s, err := b.Start(ctx, testSpec())
			if err == nil {
				s.Close()
			}
			if want := map[bool]error{false: context.Canceled, true: errClosed}[closed]; !errors.Is(err, want) {
				t.Errorf("%s, closed %v: got %v", step, closed, err)
			}
			cancel()
			closeAndCheck(t, b, d)
		}
	}
}

// TestTransient has engines fail once, and always.
func TestTransient(t *testing.T) {
	flaky := errors.New("flaky engine")
	for _, tt := range []struct {
		name   string
		step   string // the failing step
		orders []string
		want   []string // in the error; none for success
		made   int
	}{
		{"start fails once", "start", nil, nil, 2},
		{"create fails once", "create", nil, nil, 2},
		{"create always fails", "create!", nil, []string{"flaky engine", "shell:1@sha256:shell", "docker"}, 2},
		{"start is refused", "start", nil, []string{"flaky engine"}, 1},
		{"start always fails", "start!", nil, []string{"flaky engine", "shell:1@sha256:shell", "docker"}, 2},
		{"an init fails once", "", []string{"fail"}, nil, 2},
		{"an init always fails", "", []string{"fail", "fail"}, []string{"did not connect", "code 3", "cannot do this", "shell:1"}, 2},
		{"an init dies while it builds, once", "", []string{"die while building"}, nil, 2},
		{"the init refuses", "", []string{"refuse"}, []string{"landlock", "not here"}, 1},
		{"an engine that is careless", "", []string{"be loose"}, []string{"layer nnp", "gain privileges"}, 1},
		{"no interpreter", "", []string{"no runtime"}, []string{"has no shell", "nowhere", "image build --backend docker shell"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, c := newDouble(), config(t)
			b := New(d, c)
			d.orders = tt.orders
			var times atomic.Int32
			d.before = func(_ context.Context, s string) error {
				if s == strings.TrimSuffix(tt.step, "!") && (times.Add(1) == 1 || strings.HasSuffix(tt.step, "!")) {
					if tt.name == "start is refused" {
						return &backends.Refusal{Reason: flaky.Error()}
					}
					return flaky
				}
				return nil
			}
			s, err := b.Start(t.Context(), testSpec())
			if err == nil {
				s.Close()
			}
			if (err == nil) != (len(tt.want) == 0) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if _, ever := d.count(); ever != tt.made {
				t.Errorf("%d containers were made, want %d", ever, tt.made)
			}
			closeAndCheck(t, b, d)
		})
	}
}

// TestLost has containers end while a program runs in them. No program runs twice.
func TestLost(t *testing.T) {
	for _, tt := range []struct {
		name, program string
		meanwhile     func(*double, *sandbox)
		want          backends.Result
		err           string
	}{
		{"out of memory", "oom", nil, backends.Result{End: backends.End{Ended: backends.EndedOOM, Limit: "ram", ExitCode: 137,
			Signal: "SIGKILL"}}, ""},
		{"the init ended", "die", nil, backends.Result{}, "while it ran: it ended with code 6"},
		{"before the program began", "die unseen", nil, backends.Result{}, "is gone: it ended with code 5"},
		{"removed by somebody", "sleep", func(d *double, s *sandbox) { d.Remove(context.Background(), s.handle.id) }, backends.Result{},
			"it was killed"},
		{"closed", "sleep", func(_ *double, s *sandbox) { s.Close() },
			backends.Result{End: backends.End{Ended: backends.EndedSignal, ExitCode: 137, Signal: "SIGKILL"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDouble()
			b := New(d, config(t))
			s, err := b.Start(t.Context(), testSpec())
			if err != nil {
				t.Fatal(err)
			}
			input, begun := io.Pipe()
			r, err := s.Exec(t.Context(), backends.Command{Args: []string{tt.program}},
				backends.Streams{Stdin: input, Begun: func(backends.Containment) {
					begun.Close()
					if tt.meanwhile != nil {
						go tt.meanwhile(d, s.(*sandbox))
					}
				}})
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got error %v, want %q", err, tt.err)
			}
			if err == nil && len(r.Contained.Layers) == 0 {
				t.Error("what held it is lost")
			}
			r.Contained, r.Wall = backends.Containment{}, 0
			if r.Ended != tt.want.Ended || r.Limit != tt.want.Limit || r.ExitCode != tt.want.ExitCode || r.Signal != tt.want.Signal {
				t.Errorf("got %+v, want %+v", r, tt.want)
			}
			if _, ever := d.count(); ever != 1 {
				t.Errorf("%d containers were made", ever)
			}
			s.Close()
			closeAndCheck(t, b, d)
		})
	}
}

// TestCancelledAnytime ends contexts at random times.
func TestCancelledAnytime(t *testing.T) {
	d := newDouble()
	b := New(d, config(t))
	for range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(rand.Int64N(int64(60*time.Millisecond))), cancel)
		if s, err := b.Start(ctx, testSpec()); err == nil {
			s.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		cancel()
	}
	closeAndCheck(t, b, d)
}

// TestLinger has an init that can't be killed from here continue after the connection's end.
func TestLinger(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Attach = true
	b := New(d, c)
	d.orders = []string{"linger"}
	s, err := b.Start(t.Context(), testSpec())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if now, _ := d.count(); now != 0 {
		t.Error("the sandbox is closed, and its container runs")
	}
	closeAndCheck(t, b, d)
}

// TestLimit changes limits in both places, or in none.
func TestLimit(t *testing.T) {
	d := newDouble()
	b := New(d, config(t))
	s, err := b.Start(t.Context(), testSpec())
	if err != nil {
		t.Fatal(err)
	}
	defer closeAndCheck(t, b, d)
	defer s.Close()
	var updates []string
	d.before = func(_ context.Context, step string) error {
		updates = append(updates, step)
		if strings.HasSuffix(step, " 64") {
			return errors.New("too many cores")
		}
		return nil
	}
	got, err := s.Limit(backends.Limits{RAM: 1 << 30, CPU: 2})
	if err != nil || got.RAM != 1<<30 || got.CPU != 2 || got.Disk != backends.DefaultLimits.Disk {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := s.Limit(backends.Limits{CPU: 64}); err == nil || got.CPU != 2 {
		t.Errorf("the engine fails: got %+v, %v", got, err)
	}
	if got, err := s.Limit(backends.Limits{RAM: 13}); err == nil || got.RAM != 1<<30 {
		t.Errorf("the init fails: got %+v, %v", got, err)
	}
	if got, err := s.Limit(backends.Limits{}); err != nil || got.CPU != 2 {
		t.Errorf("asked: got %+v, %v", got, err)
	}
	want := []string{"update 1600 293 2", "update 1600 293 64", "update 576 293 2", "update 1600 293 2"}
	if !slices.Equal(updates, want) {
		t.Errorf("got %q, want %q", updates, want)
	}
}

// TestRefused checks requests for which no container is made.
func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*backends.Spec){
		"another profile":     func(s *backends.Spec) { s.Profile = "landlock" },
		"no such layer":       func(s *backends.Spec) { s.Require = []string{"walls"} },
		"a time namespace":    func(s *backends.Spec) { s.Require = []string{backends.LayerTime} },
		"no such language":    func(s *backends.Spec) { s.Language = "cobol" },
		"a port too often":    func(s *backends.Spec) { s.Gateway = []int{80, 80} },
		"the resolver's port": func(s *backends.Spec) { s.Gateway = []int{53} },
		"no port":             func(s *backends.Spec) { s.Gateway = []int{0} },
		"too many ports":      func(s *backends.Spec) { s.Gateway = make([]int, 1000) },
		"a device for a GPU":  func(s *backends.Spec) { s.GPUs = []string{"../sda"} },
		"all GPUs, and one":   func(s *backends.Spec) { s.GPUs = []string{"all", "0"} },
		"a mount over us":     func(s *backends.Spec) { s.Mounts = []backends.Mount{{Host: os.TempDir(), Inside: Home}} },
	} {
		d := newDouble()
		b := New(d, config(t))
		spec := testSpec()
		change(&spec)
		if s, err := b.Start(t.Context(), spec); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
		if _, ever := d.count(); ever != 0 {
			t.Errorf("%s: a container was made", name)
		}
		closeAndCheck(t, b, d)
	}
}

// TestFull has an engine with room for two containers: idle ones give way, a start waits for a container in
// removal, and is refused at once if there is neither.
func TestFull(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Ahead = 2
	b := New(d, c)
	defer closeAndCheck(t, b, d)
	d.capacity = 2
	python := testSpec()
	python.Language = "python"
	startSandbox(t, b, python).Close()
	waitIdle(t, b, 2)
	first := startSandbox(t, b, testSpec()) // of another language
	second := startSandbox(t, b, python)
	_, made := d.count()
	if _, err := b.Start(t.Context(), testSpec()); !errors.Is(err, ErrFull) {
		t.Errorf("a third: %v", err)
	}
	if _, now := d.count(); now != made {
		t.Error("a container was made where there was no room")
	}
	refusals := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.refused
	}
	before, removed := refusals(), make(chan struct{})
	d.before = func(_ context.Context, step string) error {
		if step == "remove" {
			<-removed
		}
		return nil
	}
	first.Close()
	third := make(chan error, 1)
	go func() {
		s, err := b.Start(t.Context(), testSpec())
		if err == nil {
			err = s.Close()
		}
		third <- err
	}()
	hosttest.Until(t, "it waits", func() bool { return refusals() > before+2 })
	close(removed)
	if err := <-third; err != nil {
		t.Error(err)
	}
	second.Close()
}
