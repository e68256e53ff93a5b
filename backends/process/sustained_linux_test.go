package process

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// BenchmarkSustainedAnnounced runs a Python bare and in sandboxes that are told their program, as many at once as
// there are CPUs, in turn for a second each: more than a pool can be refilled for.
func BenchmarkSustainedAnnounced(b *testing.B) {
	backend := newBackend(b, Config{Pool: Pool{Max: 4}})
	cmd := backends.Command{Args: []string{"python", "main.py"}}
	spec := announced("python", cmd)
	spec.Require = backends.ContainmentLayers
	r, err := backend.runtime(b.Context(), "python")
	if err != nil {
		b.Skip(err)
	}
	stock(b, backend, spec)
	rates := rates{}
	for b.Loop() {
		rates.measure(b, "bare", func() error { return command([]string{r.Path, "-I", "-S", "-c", "print(1)"}).Run() })
		rates.measure(b, "sandbox", func() error {
			s, err := backend.Start(b.Context(), spec)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.Files().Put("main.py", 0o644, strings.NewReader("print(1)")); err != nil {
				return err
			}
			r, err := s.Exec(b.Context(), cmd, backends.Streams{Stdout: io.Discard})
			if err == nil && r.Ended != backends.EndedOK {
				err = fmt.Errorf("ended %s", r.Ended)
			}
			return err
		})
	}
	rates.report(b)
}
