package process

import (
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
)

// TestLimitsOfEarlier spawns with the limits of the sandbox before: the next sandbox shows its own.
func TestLimitsOfEarlier(t *testing.T) {
	b := newBackend(t, Config{})
	const code = `while read -r name n _; do [ "$name" = MemTotal: ] && echo $n; done </proc/meminfo; cat /sys/fs/cgroup/{memory.max,memory/memory.limit_in_bytes} 2>/dev/null; exit 0`
	for _, mb := range []int64{1024, 96, 96, 512} { // longer, and shorter texts
		s, err := b.Start(t.Context(), backends.Spec{ID: "limits", Language: "shell", Limits: backends.Limits{RAM: mb << 20}})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(runScript(t, s.(*Sandbox), code))
		s.Close()
		if want := limitText(mb << 10); len(got) != 2 || got[0]+"\n" != want || got[1]+"\n" != limitText(mb<<20) {
			t.Errorf("with %d MiB: got %q", mb, got)
		}
	}
}

// TestNothingToRefresh counts writes for a session whose interpreter waits: there are none.
func TestNothingToRefresh(t *testing.T) {
	b := newBackend(t, Config{})
	one, err := b.Start(t.Context(), backends.Spec{ID: "idle", Language: "shell", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	s := one.(*Sandbox)
	v := &s.visible
	saw := reading{ram: 1 << 20}
	s.refresh(saw)
	first := v.written
	v.written = v.written.Add(-time.Minute)
	s.refresh(saw)
	if first.IsZero() || v.written.After(first) {
		t.Error("it was written again, and nothing had changed")
	}
	saw.ram, saw.cpu = 2<<20, time.Second
	s.refresh(saw)
	if !v.written.After(first) || v.texts["proc/meminfo"] != backends.MemInfo(s.limits.RAM, 2<<20) {
		t.Error("it was not written")
	}
}

// TestSameFiles checks that the set of files depends only on the machine: they are made before the limits are
// known.
func TestSameFiles(t *testing.T) {
	var g *cgroup.Group
	small := visibleLimits{64 << 20, 0.5, 10, false}.files(g.Hierarchies())
	large := visibleLimits{1 << 40, 4096, 1 << 20, false}.files(g.Hierarchies())
	for name, text := range large {
		if text == "" || small[name] == "" {
			t.Errorf("%s: %q, %q", name, small[name], text)
		}
	}
	if len(small) != len(large) || len(small) < 6 {
		t.Errorf("%d and %d files", len(small), len(large))
	}
}
