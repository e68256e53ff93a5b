package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// TestTakesOverFirst checks that the launcher runs before packages of this module's dependencies are initialised,
// which would cost each start milliseconds and megabytes. Some packages with almost no imports still come first,
// and initialise a table or two.
func TestTakesOverFirst(t *testing.T) {
	conn, theirs, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close() // without a server, the launcher exits at once
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{launch.Name}
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	cmd.ExtraFiles = []*os.File{theirs}
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("launcher: %v\n%s", err, trace.Bytes())
	}
	if !strings.Contains(trace.String(), "init ") {
		t.Fatalf("no trace: %q", trace.String())
	}
	const table = 8 << 10
	for line := range strings.Lines(trace.String()) {
		var name string
		var at, clock float64
		var size, count int
		_, err := fmt.Sscanf(line, "init %s @%g ms, %g ms clock, %d bytes, %d allocs", &name, &at, &clock, &size, &count)
		if err != nil || !strings.HasPrefix(line, "init ") {
			continue
		}
		if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") && size > table {
			t.Errorf("initialised before the launcher took over: %s", line)
		}
	}
}

// TestPlanStopsAtFirstFailure checks that a step with an unexpected result ends PID 1, and that the error names the
// step.
func TestPlanStopsAtFirstFailure(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(p *plan)
		want error
	}{
		{"must succeed", func(p *plan) { p.do("chdir /nowhere", unix.SYS_CHDIR, p.str("/nowhere")) }, unix.ENOENT},
		{"must fail", func(p *plan) { p.refused(unix.EACCES, "chdir /", unix.SYS_CHDIR, p.str("/")) }, nil},
		{"must fail otherwise", func(p *plan) { p.refused(unix.EACCES, "chdir /nowhere", unix.SYS_CHDIR, p.str("/nowhere")) }, unix.ENOENT},
		{"must answer", func(p *plan) { p.want(7, "getppid", unix.SYS_GETPPID) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t, Config{})
			child, err := b.SpawnByLauncher(t.Context(), b.Namespaces())
			if err != nil {
				t.Fatal(err)
			}
			defer child.Remove()
			p := newPlan(1)
			c.add(p)
			p.sendReady()
			if err := send(child, p, launch.ForInit); err != nil {
				t.Fatal(err)
			}
			var m launch.Message
			if _, _, err := receive(child.control, messageBytes(&m)); err != nil {
				t.Fatal(err)
			}
			if m.Kind != launch.Failed {
				t.Fatalf("got message %+v, want Failed", m)
			}
			err = p.explain(m)
			if !strings.HasPrefix(err.Error(), p.name(0)+":") || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %s: %v", err, p.name(0), c.want)
			}
		})
	}
}

func TestPlanTooLarge(t *testing.T) {
	p := newPlan(1)
	p.bytes(make([]byte, launch.MaxPlan))
	if _, err := p.encode(nil); !errors.Is(err, unix.E2BIG) {
		t.Errorf("got %v, want E2BIG", err)
	}
}
