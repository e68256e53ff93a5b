package process

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// pooled makes a backend that keeps sandboxes ready.
func pooled(t testing.TB) *Backend {
	return newBackend(t, Config{Pool: Pool{Max: 8}})
}

// announced is the Spec of a program in a file.
func announced(language string, cmd backends.Command) backends.Spec {
	return backends.Spec{ID: "announced", Language: language, Program: &cmd}
}

// stock has a sandbox stand ready for a program.
func stock(t testing.TB, b *Backend, spec backends.Spec) {
	t.Helper()
	r, why := poolKeyOf(spec)
	if why != "" {
		t.Fatalf("nothing can stand ready: %s", why)
	}
	if failed := b.preSpawned.pool.Prepare(r); failed != "" {
		t.Fatal(failed)
	}
}

// ran is a Result with what was written.
type ran struct {
	backends.Result
	out, err string
}

func runProgram(t testing.TB, b *Backend, spec backends.Spec, files map[string]string, stdin string) ran {
	t.Helper()
	s, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, text := range files {
		if err := s.Files().Put(name, 0o644, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	streams := backends.Streams{Stdout: &out, Stderr: &errs}
	if stdin != "" {
		streams.Stdin = strings.NewReader(stdin)
	}
	r, err := s.Exec(t.Context(), *spec.Program, streams)
	if err != nil {
		t.Fatal(err)
	}
	return ran{r, out.String(), errs.String()}
}
