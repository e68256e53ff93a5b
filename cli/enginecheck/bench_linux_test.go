package enginecheck_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// BenchmarkEngines compares a run in an idle container with the engine's own exec into a running container, and a cold
// run with the engine's own run. It reports the medians of alternating runs and their ratio, which is comparable
// between machines.
//
// go test -run ^$ -bench Engines -benchtime 20x ./cli/enginecheck
func BenchmarkEngines(b *testing.B) {
	for _, kind := range backendKinds[1:] {
		for _, program := range []struct {
			name, language string
			args           []string
		}{{"shell", "shell", []string{"bash", "-c", ":"}}, {"python", "python", []string{"python3", "-c", "pass"}}} {
			b.Run(kind+"/"+program.name, func(b *testing.B) {
				if !hasEngine(b, kind) {
					b.SkipNow()
				}
				e := engineCLI{b, kind, engineURLs()[kind](b)}
				idleID := e.startIdle(testImages(b, e.url)[program.language])
				pooled, cold := backendOf(b, kind, 2), backendOf(b, kind, 0)
				ours := append([]string{}, program.args...)
				if program.language == "python" {
					ours[0] = "python"
				}
				timeRun(b, pooled, program.language, ours)
				timeRun(b, cold, program.language, ours)
				var took [4][]time.Duration
				for range max(b.N, 5) {
					// The pool starts a new one meanwhile, as between an agent's calls.
					time.Sleep(700 * time.Millisecond)
					took[0] = append(took[0], timeRun(b, pooled, program.language, ours))
					time.Sleep(700 * time.Millisecond)
					took[1] = append(took[1], e.timeCommand(append([]string{"exec", idleID}, program.args...)...))
					took[2] = append(took[2], timeRun(b, cold, program.language, ours))
					took[3] = append(took[3], e.timeCommand(slices.Concat(engineRun, []string{"--rm", testImages(b, e.url)[program.language]},
						program.args)...))
				}
				for i, name := range []string{"pool-ms", "exec-ms", "cold-ms", "run-ms"} {
					b.ReportMetric(ms(median(took[i])), name)
				}
				b.ReportMetric(ms(median(took[0]))/ms(median(took[1])), "pool/exec")
				b.ReportMetric(ms(median(took[2]))/ms(median(took[3])), "cold/run")
				b.ReportMetric(0, "ns/op") // the operations differ in kind
			})
		}
	}
}

// timeRun returns the duration of one run, from Start to its result. Closing is not included.
func timeRun(b *testing.B, backend backends.Backend, language string, args []string) time.Duration {
	b.Helper()
	begun := time.Now()
	s, err := backend.Start(b.Context(), backends.Spec{ID: "bench", Language: language})
	if err != nil {
		b.Fatal(err)
	}
	res, err := s.Exec(b.Context(), backends.Command{Args: args}, backends.Streams{Stdout: io.Discard})
	took := time.Since(begun)
	if err != nil || res.Ended != backends.EndedOK {
		b.Fatalf("%s %v", res.Ended, err)
	}
	s.Close()
	return took
}

// engineRun are the arguments for an engine's own container. Podman's default process limit may exceed the machine's.
var engineRun = []string{"run", "--network=none", "--ulimit=nproc=4096:4096", "--ulimit=nofile=1024:4096"}

// engineCLI is an engine's own command line.
type engineCLI struct {
	testing.TB
	kind, url string
}

func (e engineCLI) newCommand(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), e.kind, args...)
	if e.kind == "podman" {
		cmd.Args = append([]string{"podman", "--remote", "--url", e.url}, args...)
	}
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.url)
	return cmd
}

// startIdle starts a container that does nothing, and removes it when the benchmark ends.
func (e engineCLI) startIdle(image string) (id string) {
	e.Helper()
	if _, err := exec.LookPath(e.kind); err != nil {
		e.Skip(err)
	}
	out, err := e.newCommand(append(engineRun, "--detach", image, "sleep", "600")...).CombinedOutput()
	if err != nil {
		e.Fatalf("start a container: %v: %s", err, out)
	}
	id = strings.TrimSpace(string(out))
	e.Cleanup(func() { e.newCommand("rm", "--force", id).Run() })
	return id
}

// timeCommand returns the duration of a command, which must succeed.
func (e engineCLI) timeCommand(args ...string) time.Duration {
	e.Helper()
	begun := time.Now()
	if out, err := e.newCommand(args...).CombinedOutput(); err != nil {
		e.Fatalf("%s %v: %v: %s", e.kind, args, err, out)
	}
	return time.Since(begun)
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
