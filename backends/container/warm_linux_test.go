package container

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// announcedSpec returns a specification that announces its program.
func announcedSpec() backends.Spec {
	s := testSpec()
	s.Program = &backends.Command{Args: []string{"spec"}}
	return s
}

// TestAnnouncedCommand: another run may use the prepared container, so the announcement has only an interpreter's
// part of the command.
func TestAnnouncedCommand(t *testing.T) {
	for _, tt := range []struct {
		language string
		args     []string
		want     []string
	}{
		{"python", []string{"python", "main.py", "given"}, []string{"python", "main.py"}},
		{"python", []string{"python", "-c", "code"}, []string{"python", "-c"}},
		{"node", []string{"node", "--enable-source-maps", "main.js", "given"}, []string{"node", "--enable-source-maps", "main.js"}},
		{"shell", []string{"bash", "-c", "code"}, []string{"bash"}},
		{"shell", []string{"bash", "main.sh"}, []string{"bash", "main.sh"}},
		{"shell", []string{"cat", "given"}, []string{"cat"}},
		{"python", []string{"python", "\xff.py"}, nil},
	} {
		got := announcedCommand(tt.language, &backends.Command{Args: tt.args, Env: []string{"A=given"}})
		if tt.want == nil != (got == nil) || got != nil && (!slices.Equal(got.Args, tt.want) || got.Env != nil) {
			t.Errorf("%s %q: %+v, want %q", tt.language, tt.args, got, tt.want)
		}
	}
}

// TestNoPool: without a pool there is nothing to count, and no reason to report.
func TestNoPool(t *testing.T) {
	d := newDouble()
	b := New(d, config(t))
	defer closeAndCheck(t, b, d)
	s := startSandbox(t, b, announcedSpec())
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"spec"}}, backends.Streams{})
	if s.Close(); err != nil || r.Warm || r.Cold != "" || len(b.Pools()) > 0 {
		t.Errorf("got %+v, %+v, %v", r, b.Pools(), err)
	}
}

// TestNextWaits checks that the container for the next sandbox is started when the program has ended, and not
// before, unless that takes long.
func TestNextWaits(t *testing.T) {
	run := func(s *sandbox, program string, begun func(backends.Containment)) {
		if _, err := s.Exec(t.Context(), backends.Command{Args: []string{program}}, backends.Streams{Begun: begun}); err != nil {
			t.Error(err)
		}
	}
	for name, end := range map[string]func(s *sandbox, begun func(backends.Containment)){
		"a program ends": func(s *sandbox, begun func(backends.Containment)) { run(s, "spec", begun) },
		"it is closed":   func(s *sandbox, begun func(backends.Containment)) { begun(backends.Containment{}); s.Close() },
		"it takes long":  func(s *sandbox, begun func(backends.Containment)) { begun(backends.Containment{}) },
	} {
		d, c := newDouble(), config(t)
		c.Ahead = 1
		b := New(d, c)
		asked := time.Now()
		s := startSandbox(t, b, announcedSpec())
		end(s, func(backends.Containment) {
			if _, made := d.count(); made > 1 && time.Since(asked) < refillAfter {
				t.Errorf("%s: the next was made before", name)
			}
		})
		waitIdle(t, b, 1)
		s.Close()
		closeAndCheck(t, b, d)
	}
}

// TestImageIsAskedFor: an idle container is not used before the engine has confirmed that its image still has the
// configured name.
func TestImageIsAskedFor(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Ahead = 1
	b := New(d, c)
	defer closeAndCheck(t, b, d)
	startSandbox(t, b, announcedSpec()).Close()
	waitIdle(t, b, 1)
	asked, answer := make(chan struct{}), make(chan struct{})
	d.mu.Lock()
	d.before = func(_ context.Context, step string) error {
		if step == "image" {
			close(asked)
			<-answer
		}
		return nil
	}
	d.mu.Unlock()
	begun := make(chan *sandbox)
	go func() { begun <- startSandbox(t, b, announcedSpec()) }()
	<-asked
	d.mu.Lock()
	d.images["shell:1"], d.before = Image{ID: "sha256:newer"}, nil
	d.mu.Unlock()
	close(answer)
	s := <-begun
	if s.handle.plan.image.ID != "sha256:newer" || s.warm {
		t.Errorf("it began in %s, warm %v", s.handle.plan.image.ID, s.warm)
	}
	s.Close()
}

// TestProgramsExited: Close waits for the end of PID 1 if a program may still be alive, and only then.
func TestProgramsExited(t *testing.T) {
	for _, tt := range []struct {
		name    string
		keep    bool
		command string // executed command
		under   string // running command
		want    bool
	}{
		{"nothing ran", false, "", "", true},
		{"a program has ended", false, "spec", "", true},
		{"its container ended first", false, "die", "", false},
		{"another one runs", false, "spec", "sleep", false},
		{"a session", true, "spec", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDouble()
			b := New(d, config(t))
			defer closeAndCheck(t, b, d)
			spec := testSpec()
			spec.Keep = tt.keep
			s := startSandbox(t, b, spec)
			var under sync.WaitGroup
			if tt.under != "" {
				begun := make(chan struct{})
				under.Go(func() {
					s.Exec(t.Context(), backends.Command{Args: []string{tt.under}}, backends.Streams{Begun: func(backends.Containment) { close(begun) }})
				})
				<-begun
			}
			if tt.command != "" {
				s.Exec(t.Context(), backends.Command{Args: []string{tt.command}}, backends.Streams{})
			}
			if got := s.programsExited(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			s.Close()
			under.Wait()
		})
	}
}
