package container

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func TestPools(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Ahead = 2
	b := New(d, c)
	defer shut(t, b, d)
	program := &backends.Command{Args: []string{"spec"}, Env: []string{string(make([]byte, 8<<20))}} // longer than what travels at the start
	run := func(change func(*backends.Spec), warm bool, cold string) {
		t.Helper()
		spec := request()
		spec.Program = program
		if change != nil {
			change(&spec)
		}
		s := begin(t, b, spec)
		defer s.Close()
		r, err := s.Exec(t.Context(), backends.Command{Args: program.Args}, backends.Streams{})
		if err != nil || r.Warm != warm || r.Cold != cold {
			t.Errorf("got %v, warm %v, cold %q; want warm %v, cold %q", err, r.Warm, r.Cold, warm, cold)
		}
	}
	run(nil, false, "none stood ready")
	waitIdle(t, b, 2)
	run(nil, true, "")
	run(func(s *backends.Spec) { s.Trust = []byte("x") }, false, "it trusts a certificate")
	run(func(s *backends.Spec) { s.Mounts = []backends.Mount{{Host: t.TempDir(), Inside: "/data"}} }, false, "host folders are shown")
	begin(t, b, request()).Close() // whoever says nothing of a program is not counted
	waitIdle(t, b, 2)
	want := []backends.Pool{{Language: request().Language, RAM: request().Limits.WithDefaults().RAM, Ready: 2, Hits: 1, Misses: 3,
		Cold: map[string]int64{"none stood ready": 1, "it trusts a certificate": 1, "host folders are shown": 1}}}
	got := b.Pools()
	for i := range got {
		if got[i].Memory <= 0 {
			t.Errorf("inits that wait hold %d bytes", got[i].Memory)
		}
		got[i].Memory = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
