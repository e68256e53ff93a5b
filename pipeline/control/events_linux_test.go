package control

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// seqs collects the numbers of a stream that ends.
func seqs(t *testing.T, c *Client, q EventQuery) (all []uint64) {
	t.Helper()
	for line, err := range c.Events(t.Context(), q) {
		must(t, err)
		if line.Seq > 0 {
			all = append(all, line.Seq)
		}
	}
	return all
}

func TestEventsThatAreRemembered(t *testing.T) {
	bus := event.NewBus()
	c := connect(t, serve(t, Config{Events: bus}))
	began := time.Now()
	bus.Publish(event.Event{Name: event.EgressDenied, Namespace: "a", Run: "R1", Data: map[string]any{"name": "x.example", "port": 443}})
	bus.Publish(event.Event{Name: event.VaultAccessed, Namespace: "b"})
	bus.Publish(event.Event{Name: event.EgressDenied, Namespace: "b"})
	for name, tt := range map[string]struct {
		q    EventQuery
		want []uint64
	}{
		"all":       {EventQuery{}, []uint64{1, 2, 3}},
		"namespace": {EventQuery{Namespace: "b"}, []uint64{2, 3}},
		"kind":      {EventQuery{Kinds: []string{event.EgressDenied}}, []uint64{1, 3}},
		"kinds":     {EventQuery{Kinds: []string{event.EgressDenied, event.VaultAccessed}, Namespace: "b"}, []uint64{2, 3}},
		"since":     {EventQuery{Since: 2}, []uint64{3}},
		"nobody's":  {EventQuery{Namespace: "c"}, nil},
	} {
		if got := seqs(t, c, tt.q); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	for line, err := range c.Events(t.Context(), EventQuery{Namespace: "a"}) {
		must(t, err)
		if line.Name != event.EgressDenied || line.Run != "R1" || fmt.Sprintf("%v %v", line.Data["name"], line.Data["port"]) != "x.example 443" ||
			line.Time.Before(began.Truncate(0)) || line.Time.After(time.Now()) {
			t.Errorf("got %+v", line)
		}
	}
	for range 1200 {
		bus.Publish(event.Event{Name: event.EgressDenied, Namespace: "a"})
	}
	for line, err := range c.Events(t.Context(), EventQuery{Since: 3}) {
		must(t, err)
		if line.Forgotten != 200 {
			t.Errorf("first line %+v, want 200 forgotten", line)
		}
		break
	}
}

func TestEventsThatCome(t *testing.T) {
	bus := event.NewBus()
	// A stream takes longer than any answer may, and Close does not wait for it.
	l := serveAt(t, Config{Events: bus}, pace{read: time.Hour, work: 1, write: 1, close: time.Hour})
	c := newClient(filepath.Dir(l.socket.path), strings.TrimSuffix(filepath.Base(l.socket.path), socketSuffix))
	defer c.Close()
	bus.Publish(event.Event{Name: event.EgressDenied})
	got := make(chan Line, 100)
	ended := make(chan error, 1)
	go func() {
		var last error
		for line, err := range c.Events(context.Background(), EventQuery{Follow: true}) {
			if last = err; err == nil {
				got <- line
			}
		}
		ended <- last
	}()
	await := func(seq uint64) {
		t.Helper()
		select {
		case line := <-got:
			if line.Seq != seq {
				t.Errorf("got number %d, want %d", line.Seq, seq)
			}
		case err := <-ended:
			t.Fatalf("the stream ends before number %d: %v", seq, err)
		}
	}
	await(1)
	for range 3 {
		bus.Publish(event.Event{Name: event.VaultAccessed})
	}
	await(2)
	await(3)
	await(4)
	must(t, l.Close())
	if err := <-ended; err != nil {
		t.Errorf("the client's end: %v", err)
	}
}

// TestEventsOfASlowClient has a client that does not read: nothing waits for it, and it learns that it missed events.
func TestEventsOfASlowClient(t *testing.T) {
	bus := event.NewBus()
	l := serve(t, Config{Events: bus})
	conn := mute(t, l, "/v1/events")
	waitForStreams(t, l, 1)
	const n = 6000
	for range n {
		bus.Publish(event.Event{Name: event.EgressDenied, Data: map[string]any{"x": strings.Repeat("x", 1000)}})
	}
	events, dropped := 0, uint64(0)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	for lines := bufio.NewScanner(resp.Body); uint64(events)+dropped < n && lines.Scan(); {
		var line Line
		must(t, json.Unmarshal(lines.Bytes(), &line))
		if dropped += line.Dropped; line.Seq > 0 {
			events++
		}
	}
	if dropped == 0 || uint64(events)+dropped != n {
		t.Errorf("%d events and %d dropped, want %d in all", events, dropped, n)
	}
}

// mute sends a request without reading the answer.
func mute(t *testing.T, l *Listener, path string) net.Conn {
	t.Helper()
	conn, err := dial(t.Context(), filepath.Dir(l.socket.path), strings.TrimSuffix(filepath.Base(l.socket.path), socketSuffix))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: server\r\n\r\n", path)
	must(t, err)
	return conn
}

func waitForStreams(t *testing.T, l *Listener, n int) {
	t.Helper()
	hosttest.Until(t, fmt.Sprintf("there are %d streams", n), func() bool { return l.api.streams.Taken() == n })
}

// TestStuckClients neither keep others out nor the server from ending.
func TestStuckClients(t *testing.T) {
	bus := event.NewBus()
	b, _ := broker(t)
	before := runtime.NumGoroutine()
	l := serve(t, Config{Events: bus, Approvals: b})
	c := connect(t, l)
	for range maxStreams {
		mute(t, l, "/v1/events")
	}
	waitForStreams(t, l, maxStreams)
	for range 3000 {
		bus.Publish(event.Event{Name: event.EgressDenied, Data: map[string]any{"x": strings.Repeat("x", 1000)}})
	}
	for _, err := range c.Events(t.Context(), EventQuery{Follow: true}) {
		if err == nil || !strings.Contains(err.Error(), "16 clients listen already") {
			t.Errorf("one more: %v", err)
		}
	}
	if _, err := c.Grants(t.Context()); err != nil {
		t.Errorf("another request: %v", err)
	}
	must(t, l.Close())
	c.Close()
	hosttest.Until(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// TestClientsThatGo leave no stream behind.
func TestClientsThatGo(t *testing.T) {
	bus := event.NewBus()
	l := serve(t, Config{Events: bus})
	c := connect(t, l)
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		bus.Publish(event.Event{Name: event.EgressDenied})
		for _, err := range c.Events(ctx, EventQuery{Follow: true}) {
			if err != nil {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		cancel()
	}
	for range 50 {
		mute(t, l, "/v1/events").Close()
	}
	waitForStreams(t, l, 0)
}

func TestEventsAreRefused(t *testing.T) {
	l := serve(t, Config{Events: event.NewBus()})
	for name, tt := range map[string]struct {
		query  string
		status int
		want   string
	}{
		"kind":           {"kind=egress.deny", 400, "did you mean"},
		"since":          {"since=-1", 400, "must not be negative"},
		"since twice":    {"since=1&since=2", 400, "is repeated"},
		"follow":         {"follow=no", 400, "must be true or false"},
		"another filter": {"run=x", 400, "unknown argument"},
	} {
		resp, err := http.ReadResponse(bufio.NewReader(mute(t, l, "/v1/events?"+tt.query)), nil)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(text), tt.want) {
			t.Errorf("%s: %d %s %v", name, resp.StatusCode, text, err)
		}
	}
}

// FuzzLine reads lines that a server may send.
func FuzzLine(f *testing.F) {
	for _, s := range []string{`{"seq":1,"time":"2026-01-02T03:04:05Z","name":"egress.denied","data":{"port":443}}`, `{"dropped":3}`, `{}`,
		`[]`, "\xff", `{"seq":-1}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var line Line
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if d.Decode(&line) != nil {
			return
		}
		if _, err := json.Marshal(line); err != nil {
			t.Errorf("%q: can't be written again: %v", text, err)
		}
	})
}

// FuzzQuery wants that each accepted query means the same as its text.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "namespace=a&since=3", "kind=egress.denied&kind=vault.accessed", "follow=false", "since=x"} {
		f.Add(s)
	}
	read := func(query string) (*EventQuery, error) {
		return streamEvents.Arguments(&http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: query}})
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := read(text)
		if err != nil {
			return
		}
		query := url.Values{"kind": q.Kinds, "since": {fmt.Sprint(q.Since)}, "follow": {fmt.Sprint(q.Follow)}}
		if q.Namespace != "" {
			query.Set("namespace", q.Namespace)
		}
		if again, err := read(query.Encode()); err != nil || fmt.Sprint(again) != fmt.Sprint(q) {
			t.Errorf("%q: %+v, and again %+v, %v", text, q, again, err)
		}
	})
}

// An event that can't be written is told of, and those after it come.
func TestEventThatIsNoJSON(t *testing.T) {
	bus := event.NewBus()
	c := connect(t, serve(t, Config{Events: bus}))
	bus.Publish(event.Event{Name: event.EgressDenied, Data: map[string]any{"wall_ms": math.NaN()}})
	bus.Publish(event.Event{Name: event.EgressDenied})
	var got []Line
	for line, err := range c.Events(t.Context(), EventQuery{}) {
		must(t, err)
		got = append(got, line)
	}
	if len(got) != 2 || got[0].Unwritten != 1 || got[0].Dropped != 0 || got[1].Seq != 2 {
		t.Errorf("got %+v", got)
	}
}
