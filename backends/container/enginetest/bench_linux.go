package enginetest

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// BenchPool runs a program in idle containers, from the request to the result, alternating with a bare run of it.
// It reports medians in milliseconds, also of the parts, and of the work that remains after the result.
func BenchPool(b *testing.B, url string, newEngine func() container.Engine) {
	backend := container.New(newEngine(), container.Config{Images: Images(b, url), Pull: "never",
		StateDir: filepath.Join(b.TempDir(), "state"),
		Binary:   InitBinary(b), Ahead: 1})
	defer backend.Close()
	for _, c := range []struct{ language, name, source string }{{"python", "main.py", "print(1)"}, {"shell", "main.sh", "echo 1"}} {
		b.Run(c.language, func(b *testing.B) {
			r := request{backend, c.language, c.name, c.source, times{}}
			r.run(b) // finds the image, and starts a container for the next run
			clear(r.times)
			for b.Loop() {
				r.await(b)
				r.bare(b)
				r.run(b)
			}
			r.report(b)
		})
	}
}

type times map[string][]time.Duration

func (t times) since(name string, begun time.Time) time.Time {
	now := time.Now()
	t[name] = append(t[name], now.Sub(begun))
	return now
}

// request is a program that the benchmark runs repeatedly.
type request struct {
	backend                *container.Backend
	language, name, source string
	times                  times
}

// await waits until an idle container is ready, and the last one is removed.
func (r request) await(b *testing.B) {
	for range 1000 {
		if slices.ContainsFunc(r.backend.Pools(), func(p backends.Pool) bool { return p.Language == r.language && p.Ready > 0 }) {
			time.Sleep(100 * time.Millisecond)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatal("no container gets ready")
}

func (r request) bare(b *testing.B) {
	begun := time.Now()
	c := exec.Command(map[string]string{"python": "python3", "shell": "bash"}[r.language], "-c", r.source)
	c.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	if err := c.Run(); err != nil {
		b.Fatal(err)
	}
	r.times.since("bare", begun)
}

func (r request) run(b *testing.B) {
	args := []string{map[string]string{"python": "python", "shell": "bash"}[r.language], r.name}
	command := backends.Command{Args: args}
	begun := time.Now()
	s, err := r.backend.Start(context.Background(), backends.Spec{ID: "bench", Language: r.language, Program: &command})
	if err != nil {
		b.Fatal(err)
	}
	at := r.times.since("start", begun)
	if err := s.Files().Put(r.name, 0o644, strings.NewReader(r.source)); err != nil {
		b.Fatal(err)
	}
	at = r.times.since("put", at)
	if got, err := s.Exec(context.Background(), command, backends.Streams{Stdout: io.Discard, Stderr: io.Discard}); err != nil ||
		got.Ended != backends.EndedOK {
		b.Fatal(got, err)
	}
	at = r.times.since("exec", at)
	r.times.since("result", begun)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	r.times.since("close", at)
}

func (r request) report(b *testing.B) {
	for name, list := range r.times {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2])/float64(time.Millisecond), name+"-ms")
	}
}
