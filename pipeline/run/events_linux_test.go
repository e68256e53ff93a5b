package run_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/install"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/status"
)

// eventful is a pipeline with all that events are about.
type eventful struct {
	*pipeline.Pipeline
	t      *testing.T
	bus    *event.Bus
	broker *approval.Broker
	secret string
	seq    uint64 // of the last event that was looked at
}

func newEventful(t *testing.T) *eventful {
	e := &eventful{t: t, bus: event.NewBus(), secret: "k3y-" + "that-nobody-hears-of"}
	w := &pipelinetest.Town{}
	p, _, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		c.Bus, c.Queue = e.bus, pipeline.NewQueue(1, 1)
		c.Egress = w.Egress(t, []string{"*.ok.test:8080"})
		e.broker = approval.New(approval.Config{Audit: c.Audit, Bus: e.bus})
		c.Approvals, c.Egress.Ask = e.broker, true
		store, err := packages.Open(packages.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		c.Packages = store
	})
	e.Pipeline = p
	t.Cleanup(func() { e.broker.Close() })
	memory.Set("team", "KEY", []byte(e.secret))
	return e
}

// heard are the events since the last time.
func (e *eventful) heard() []event.Event {
	s, before, _ := e.bus.Listen(event.Filter{Namespace: event.All}, 1, e.seq)
	s.Cancel()
	if len(before) > 0 {
		e.seq = before[len(before)-1].Seq
	}
	return before
}

func (e *eventful) run(code string, change func(*run.Request)) (pipeline.Outcome, error) {
	q := run.Request{Namespace: "team", Language: "python", Name: "script.py", Code: []byte(code), Reach: run.Reach{Secrets: []string{"KEY"}}}
	if change != nil {
		change(&q)
	}
	_, res, err := pipeline.Do(e.t.Context(), e.Pipeline, q)
	return res, err
}

func (e *eventful) must(_ any, err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// TestEachEvent provokes each of them with the real thing.
func TestEachEvent(t *testing.T) {
	e := newEventful(t)
	index := pipelinetest.WheelIndex(t)
	var sessionID string
	seen := map[string]bool{}
	for _, tt := range []struct {
		name    string
		provoke func() (run string)
		want    map[string]string // events, and the keys that their data must have, separated by blanks
	}{
		{"a run", func() string {
			res, err := e.run("import os\nopen('out-' + os.environ['KEY'], 'w').write('x')\nprint(os.environ['KEY'])", nil)
			e.must(res, err)
			return res.ID
		}, map[string]string{
			event.ExecutionStarted: "language backend profile code_sha256", event.VaultAccessed: "secrets",
			event.ArtifactSigned:     "artifacts artifacts_sha256",
			event.ExecutionCompleted: "ended exit_code layers wall_ms peak_memory began timings_us",
		}},
		{"no time", func() string {
			res, err := e.run("while True: pass", func(q *run.Request) { q.Limits.Wall = time.Second })
			e.must(res, err)
			return res.ID
		}, map[string]string{event.ExecutionTimeout: "ended limit began timings_us", event.ResourceExceeded: "limit"}},
		{"refused", func() string {
			res, err := e.run("x", func(q *run.Request) { q.Language = "cobol" })
			if err == nil {
				t.Error("it ran")
			}
			return res.ID
		}, map[string]string{event.ExecutionFailed: "ended stage reason"}},
		{"no memory", func() string {
			res, err := e.run("a = [bytearray(b'x' * (8 << 20)) for _ in range(100)]", func(q *run.Request) { q.Limits.RAM = 64 << 20 })
			e.must(res, err)
			return res.ID
		}, map[string]string{event.ExecutionFailed: "ended limit", event.ResourceExceeded: "limit"}},
		{"names", func() string {
			res, err := e.run(`
import os, socket
for name in 'a.ok.test', 'no.test', os.environ['KEY'] + '.test':
    try:
        connection = socket.create_connection((name, 8080 if 'ok' in name else 80))
        if 'ok' not in name: connection.recv(1)  # or nobody would be asked for who has hung up
    except OSError: pass
`, func(q *run.Request) {
				q.Ask = func(ctx context.Context, pending *approval.Pending) {
					_ = e.broker.Answer(ctx, pending.Question.ID, approval.Answer{By: approval.CommandLine(), Reason: "no"})
				}
			})
			e.must(res, err)
			return res.ID
		}, map[string]string{event.EgressRequested: "what run", event.EgressDenied: "", event.EgressApproved: "name reason"}},
		{"a session", func() string {
			info, err := pipelinetest.OpenSession(t.Context(), e.Pipeline, session.New{Namespace: "team", Language: "python"})
			e.must(info, err)
			sessionID = info.ID
			return info.ID
		}, map[string]string{event.SessionCreated: "language backend layers"}},
		{"its end", func() string {
			_, err := pipelinetest.CloseSession(t.Context(), e.Pipeline, "team", sessionID)
			e.must(nil, err)
			return sessionID
		}, map[string]string{event.SessionKilled: "language why cells"}},
		{"a package", func() string {
			index(t)
			_, res, err := pipeline.Do(t.Context(), e.Pipeline, install.Request{Namespace: "team", Language: "python", Packages: []string{"greet"}})
			if e.must(res, err); res.Ended != backends.EndedOK {
				t.Fatalf("%s: %s %s", res.Ended, res.Stdout, res.Stderr)
			}
			return res.ID
		}, map[string]string{event.PackageInstalled: "packages packages_installed layer_sha256", event.ExecutionCompleted: "ended"}},
		{"a full queue", func() string {
			return e.crowd()
		}, map[string]string{event.QueueBackpressure: ""}},
	} {
		e.heard()
		began := time.Now()
		run := tt.provoke()
		list := e.heard()
		for name, keys := range tt.want {
			seen[name] = true
			i := slices.IndexFunc(list, func(v event.Event) bool { return v.Name == name && hasAll(v.Data, keys) })
			if i < 0 {
				t.Errorf("%s: no %s with %q, but %+v", tt.name, name, keys, list)
				continue
			}
			own := list[i].Run == run || name == event.EgressRequested || name == event.EgressDenied // those of a question have its id
			if run != "" && !own || list[i].Namespace != "team" || list[i].Time.Before(began) || list[i].Time.After(time.Now()) {
				t.Errorf("%s: %s is of run %q in %q, want %q", tt.name, name, list[i].Run, list[i].Namespace, run)
			}
		}
		e.checkClean(tt.name, list)
	}
	for _, name := range event.Names() {
		if !seen[name] {
			t.Errorf("nothing here provokes %s", name)
		}
	}
}

// checkClean wants no secret and no other name than those that there are.
func (e *eventful) checkClean(what string, list []event.Event) {
	e.t.Helper()
	for _, v := range list {
		text, err := json.Marshal(v)
		for _, spelled := range []string{e.secret, base64.StdEncoding.EncodeToString([]byte(e.secret))} {
			if err != nil || strings.Contains(string(text), spelled) {
				e.t.Errorf("%s: %v, a secret is in %s", what, err, text)
			}
		}
		if !event.IsEvent(v.Name) {
			e.t.Errorf("%s: there is no event %s", what, v.Name)
		}
	}
}

// crowd has one run, one that waits for it, and one that is turned away.
func (e *eventful) crowd() string {
	ctx, cancel := context.WithCancel(e.t.Context())
	defer cancel()
	done := make(chan struct{}, 2)
	go func() {
		pipeline.Do(ctx, e.Pipeline, run.Request{Namespace: "team", Language: "shell", Code: []byte("sleep 1000")})
		done <- struct{}{}
	}()
	hosttest.Until(e.t, "one runs", func() bool { return status.Now(e.Pipeline).Running == 1 })
	go func() {
		pipeline.Do(ctx, e.Pipeline, run.Request{Namespace: "team", Language: "shell", Code: []byte("true")})
		done <- struct{}{}
	}()
	hosttest.Until(e.t, "one waits", func() bool { return status.Now(e.Pipeline).Waiting == 1 })
	pipeline.Do(ctx, e.Pipeline, run.Request{Namespace: "team", Language: "shell", Code: []byte("true")})
	cancel()
	<-done
	<-done
	var kinds []string
	for _, v := range e.peek() {
		if v.Name == event.QueueBackpressure {
			kinds = append(kinds, fmt.Sprint(v.Data))
		}
	}
	if !slices.Equal(kinds, []string{"map[waiting:1]", "map[busy:true]"}) {
		e.t.Errorf("backpressure: %v", kinds)
	}
	return ""
}

// peek are the events that heard has not returned yet.
func (e *eventful) peek() []event.Event {
	s, before, _ := e.bus.Listen(event.Filter{Namespace: event.All}, 1, e.seq)
	s.Cancel()
	return before
}

func hasAll(data map[string]any, keys string) bool {
	for _, k := range strings.Fields(keys) {
		if _, ok := data[k]; !ok {
			return false
		}
	}
	return true
}
