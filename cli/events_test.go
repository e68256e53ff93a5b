package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// busServer serves the control API with the events of a bus.
func busServer(t *testing.T, pid int) (*event.Bus, *control.Listener) {
	t.Helper()
	bus := event.NewBus()
	l, err := control.Listen(control.Dir(os.Getenv("XDG_RUNTIME_DIR"), ""),
		control.New(control.Config{Server: control.Server{PID: pid}, Events: bus}))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no control socket on this system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return bus, l
}

// events runs the command events until ctx ends.
func events(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = eventsTo(ctx, &out, &errs, args...)
	return code, out.String(), errs.String()
}

func eventsTo(ctx context.Context, out, errs io.Writer, args ...string) int {
	p := &program{Streams: &command.Streams{In: strings.NewReader(""), Out: out, Err: errs}}
	app := p.app()
	line, err := cmdline.Parse(app, append([]string{"sandboxmcp", "events"}, args...))
	if err == nil {
		err = app.RunContext(ctx, line)
	}
	return p.Exit(err)
}

func TestEvents(t *testing.T) {
	setTempHome(t)
	if code, out, errs := events(t.Context()); code != 1 || out != "" || !strings.Contains(errs, "no server is running") ||
		!strings.Contains(errs, "hint: sandboxmcp audit tail -f") {
		t.Errorf("without a server: exit %d, %q, %q", code, out, errs)
	}
	bus, _ := busServer(t, 7)
	for _, e := range []event.Event{
		{Name: event.ExecutionCompleted, Namespace: "team", Run: "R1", Data: map[string]any{"language": "python", "name": "a.py", "ended": "exit",
			"exit_code": 3, "wall_ms": 1250.0}},
		{Name: event.EgressDenied, Namespace: "other", Data: map[string]any{"name": "x\x1b[2Ja.example", "port": 443,
			"reason": "no\u202e\nexecution.completed"}},
		{Name: event.VaultAccessed, Namespace: "team", Data: map[string]any{"secrets": []string{"A", "B"}}},
		{Name: event.QueueBackpressure, Namespace: "team", Data: map[string]any{"busy": true}},
		{Name: event.QueueBackpressure, Namespace: "team", Data: map[string]any{"waiting": 4}},
		{Name: event.EgressRequested, Namespace: "team", Data: map[string]any{"what": "b.example"}},
		{Name: event.ResourceExceeded, Namespace: "team", Data: map[string]any{"limit": "ram", "hit": []string{"ram", "disk"}}},
		{Name: event.SessionKilled, Namespace: "team", Data: map[string]any{"language": "node", "why": "idle"}},
	} {
		bus.Publish(e)
	}
	code, out, errs := events(t.Context())
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != 0 || errs != "" || len(lines) != 8 || strings.ContainsAny(out, "\x1b\u202e") {
		t.Fatalf("exit %d, %q, %d lines: %q", code, errs, len(lines), out)
	}
	for i, want := range []string{
		"execution.completed   team        R1                          a.py exit 3 in 1.25 s",
		`egress.denied         other                                   x\x1b[2Ja.example:443: no\u202e\nexecution.completed`,
		"A, B", "turned away: the queue is full", "  4 wait", "  b.example", "limit of ram, disk", "node idle",
	} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %q, want %q", lines[i], want)
		}
	}
	if _, out, _ := events(t.Context(), "--namespace", "other"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "egress.denied") {
		t.Errorf("one namespace: %q", out)
	}
	if _, out, _ := events(t.Context(), "--kind", "vault.accessed", "--kind=session.killed"); strings.Count(out, "\n") != 2 {
		t.Errorf("two kinds: %q", out)
	}
	_, out, _ = events(t.Context(), "--json", "--kind", event.EgressDenied)
	var e event.Event
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.Seq != 2 || e.Data["name"] != "x\x1b[2Ja.example" ||
		strings.ContainsAny(out, "\x1b\u202e") || strings.Count(out, "\n") != 1 {
		t.Errorf("%v: %q", err, out)
	}
}

func TestEventsMistyped(t *testing.T) {
	setTempHome(t)
	for name, tt := range map[string]struct {
		words []string
		code  int
		want  string
	}{
		"kind":   {[]string{"--kind", "egress.deny"}, 2, `unknown event "egress.deny" (did you mean "egress.denied"?)`},
		"word":   {[]string{"egress.denied"}, 2, "unexpected argument"},
		"server": {[]string{"--server", "12"}, 1, "server 12 is not running"},
	} {
		if code, _, errs := events(t.Context(), tt.words...); code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
	}
}

// TestEventsFollow checks that the command ends silently after a signal, and with a message when the server ends.
func TestEventsFollow(t *testing.T) {
	setTempHome(t)
	bus, l := busServer(t, 7)
	bus.Publish(event.Event{Name: event.SessionCreated})
	follow := func(ctx context.Context) (next func(want string), end func() (code int, stderr string)) {
		from, to := io.Pipe()
		var errs bytes.Buffer
		code, lines := make(chan int), bufio.NewReader(from)
		go func() { code <- eventsTo(ctx, to, &errs, "-f") }()
		return func(want string) {
			t.Helper()
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, want) {
				t.Fatalf("got %q, %v, want %s", line, err, want)
			}
		}, func() (int, string) { return <-code, errs.String() }
	}
	ctx, cancel := context.WithCancel(t.Context()) // has the same effect as a signal
	defer cancel()
	next, end := follow(ctx)
	next(event.SessionCreated)
	bus.Publish(event.Event{Name: event.SessionKilled})
	next(event.SessionKilled)
	cancel()
	if code, errs := end(); code != 0 || errs != "" {
		t.Errorf("exit %d, %q", code, errs)
	}
	next, end = follow(t.Context())
	next(event.SessionCreated)
	next(event.SessionKilled)
	l.Close()
	if code, errs := end(); code != 0 || !strings.Contains(errs, "the server has ended") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
