package process

import (
	"fmt"
	"io"
	"slices"
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
	rates := map[string][]float64{}
	measure := func(name string, run func() error) {
		n, err := perSecond(run)
		if err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		rates[name] = append(rates[name], n)
	}
	for b.Loop() {
		measure("bare", func() error { return command([]string{r.Path, "-I", "-S", "-c", "print(1)"}).Run() })
		measure("sandbox", func() error {
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
	for name, list := range rates {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name+"/s")
	}
	b.ReportMetric(rates["sandbox"][len(rates["sandbox"])/2]/rates["bare"][len(rates["bare"])/2], "sandbox/bare")
}
