package envd

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// host is a pipeline with one sandbox, and its daemon over HTTP.
type host struct {
	t        testing.TB
	pipeline *pipeline.Pipeline
	server   *Server
	log      *audit.Log
	target   Target
	url      string
	binary   bool
}

func newHost(t testing.TB) *host {
	t.Helper()
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	b := process.New(process.Config{StateDir: t.TempDir()})
	probe, err := b.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers})
	if err != nil || !probe.Usable {
		b.Close()
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	h := &host{t: t, log: log, pipeline: pipeline.New(pipeline.Config{Backends: []backends.Backend{b}, Audit: log})}
	h.server = New(h.pipeline)
	h.target = Target{Namespace: "default", Session: h.sandbox(), Token: "token of the sandbox", Env: map[string]string{"FOO": "bar"}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.server.Serve(w, r, h.target) }))
	h.url = web.URL
	t.Cleanup(func() {
		h.pipeline.Close() // ends all streams
		h.server.Close()
		web.Close()
		b.Close()
		log.Close()
	})
	return h
}

func (h *host) sandbox() string {
	h.t.Helper()
	info, _, err := pipeline.Do(h.t.Context(), h.pipeline, session.New{Bare: true, Home: "/home/user", Env: []string{"FOO=bar"},
		Limits: pipeline.Bounds{Limits: backends.Limits{Processes: 512}}})
	if err != nil {
		h.t.Fatal(err)
	}
	return info.ID
}

// request sends a request with the sandbox's token.
func (h *host) request(ctx context.Context, method, path string, body io.Reader, headers ...string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.url+path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("X-Access-Token", h.target.Token)
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.t.Fatal(err)
	}
	return res
}

func (h *host) kind() string {
	if h.binary {
		return "proto"
	}
	return "json"
}

func (h *host) marshal(m any) []byte {
	if h.binary {
		return encode(m)
	}
	b, err := json.Marshal(m)
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

func (h *host) unmarshal(b []byte, m any) {
	h.t.Helper()
	err := json.Unmarshal
	if h.binary {
		err = func(b []byte, m any) error { return decode(b, m) }
	}
	if err := err(b, m); err != nil {
		h.t.Fatalf("%q: %v", b, err)
	}
}

// call makes a unary call and returns the code of the error.
func (h *host) call(method string, q, a any, headers ...string) code {
	h.t.Helper()
	res := h.request(h.t.Context(), http.MethodPost, method, bytes.NewReader(h.marshal(q)),
		append([]string{"Content-Type", "application/" + h.kind()}, headers...)...)
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		var f fault
		if err := json.Unmarshal(b, &f); err != nil || f.Code == "" {
			h.t.Errorf("%s: status %d: %s", method, res.StatusCode, b)
		}
		return f.Code
	}
	h.unmarshal(b, a)
	return ""
}

// stream is a call that is answered by a stream of messages.
type stream struct {
	*host
	body io.ReadCloser
	err  *fault // from the last envelope
}

func (h *host) stream(ctx context.Context, method string, q any, headers ...string) *stream {
	h.t.Helper()
	m := h.marshal(q)
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
	res := h.request(ctx, http.MethodPost, method, bytes.NewReader(body), append([]string{"Content-Type", "application/connect+" + h.kind()},
		headers...)...)
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "application/connect+"+h.kind() {
		h.t.Fatalf("%s: status %d, %s", method, res.StatusCode, got)
	}
	return &stream{h, res.Body, nil}
}

// next reads a message; false is the end.
func (s *stream) next(m any) bool {
	s.t.Helper()
	var head [5]byte
	if _, err := io.ReadFull(s.body, head[:]); err != nil {
		s.err = &fault{unknown, err.Error()}
		return false
	}
	b := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(s.body, b); err != nil {
		s.t.Fatal(err)
	}
	if head[0]&2 != 0 {
		var last struct{ Error *fault }
		if err := json.Unmarshal(b, &last); err != nil {
			s.t.Fatal(err)
		}
		s.err = last.Error
		s.body.Close()
		return false
	}
	s.unmarshal(b, m)
	return true
}

// ran collects the events of a process.
type ran struct {
	pid         uint32
	out, screen string
	end         *endEvent
}

// all reads the events of a process.
func (s *stream) all(each func(ran)) (r ran) {
	for {
		var m processResponse
		if !s.next(&m) {
			return r
		}
		switch e := m.Event; {
		case e.Start != nil:
			r.pid = e.Start.PID
		case e.Data != nil:
			r.out += string(e.Data.Stdout) + string(e.Data.Stderr)
			r.screen += string(e.Data.PTY)
		case e.End != nil:
			r.end = e.End
		}
		if each != nil {
			each(r)
		}
	}
}

func bash(script string) *startRequest {
	no := false
	return &startRequest{Process: &processConfig{Cmd: "/bin/bash", Args: []string{"-l", "-c", script}}, Stdin: &no}
}

// each runs a test in both encodings.
func each(t *testing.T, f func(*testing.T, *host)) {
	for _, proto := range []bool{false, true} {
		t.Run(map[bool]string{true: "proto", false: "json"}[proto], func(t *testing.T) {
			h := newHost(t)
			h.binary = proto
			f(t, h)
		})
	}
}

func TestProcess(t *testing.T) {
	each(t, func(t *testing.T, h *host) {
		for _, tt := range []struct {
			script, out, status string
			exit                int32
		}{
			{"echo hello; whoami; pwd; echo $FOO", "hello\nuser\n/home/user\nbar\n", "exit status 0", 0},
			{"echo to stderr >&2; exit 3", "to stderr\n", "exit status 3", 3},
			{"kill -SEGV $$", "", "signal: segmentation fault", -1},
			{"cat", "", "exit status 0", 0},
		} {
			got := h.stream(t.Context(), "/process.Process/Start", bash(tt.script)).all(nil)
			if got.end == nil || got.out != tt.out || got.end.ExitCode != tt.exit || got.end.Status != tt.status || got.pid == 0 ||
				got.end.Exited == (tt.exit < 0) {
				t.Errorf("%s: got %+v, %+v", tt.script, got, got.end)
			}
		}
		if got := h.stream(t.Context(), "/process.Process/Start", &startRequest{Process: &processConfig{Cmd: "/no/such"}}).all(nil); got.end == nil || got.end.ExitCode != 127 {
			t.Errorf("no such program: got %+v", got.end)
		}
		for name, q := range map[string]*startRequest{
			"no command":        {},
			"no such directory": {Process: &processConfig{Cmd: "true", Cwd: new("/no/such")}},
			"a NUL byte":        {Process: &processConfig{Cmd: "true", Args: []string{"\x00"}}},
		} {
			s := h.stream(t.Context(), "/process.Process/Start", q)
			if s.all(nil); s.err == nil || s.err.Code != invalidArgument {
				t.Errorf("%s: got %+v", name, s.err)
			}
		}
		// A process with stdin, which another call finds.
		yes, tag := true, "mine"
		s := h.stream(t.Context(), "/process.Process/Start", &startRequest{Process: &processConfig{Cmd: "bash", Args: []string{"-c", "cat; echo ended"}, Envs: map[string]string{"A": "b"}, Cwd: new("/tmp")}, Stdin: &yes, Tag: &tag})
		var m processResponse
		s.next(&m)
		pid := m.Event.Start.PID
		var list listResponse
		if h.call("/process.Process/List", &empty{}, &list); len(list.Processes) != 1 || list.Processes[0].PID != pid || *list.Processes[0].Tag != tag ||
			list.Processes[0].Config.Envs["A"] != "b" || *list.Processes[0].Config.Cwd != "/tmp" || len(list.Processes[0].Config.Args) != 2 {
			t.Errorf("got %+v", list.Processes)
		}
		late := h.stream(t.Context(), "/process.Process/Connect", &selected{&selector{Tag: &tag}})
		late.next(&m)
		if c := h.call("/process.Process/SendInput", &inputRequest{&selector{PID: &pid}, &processInput{Stdin: []byte("hello\n")}}, &empty{}); c != "" {
			t.Error(c)
		}
		if c := h.call("/process.Process/SendInput", &inputRequest{&selector{PID: &pid}, &processInput{PTY: []byte("hello\n")}}, &empty{}); c != failed {
			t.Errorf("typed without a terminal: %q", c)
		}
		if c := h.call("/process.Process/CloseStdin", &selected{&selector{PID: &pid}}, &empty{}); c != "" {
			t.Error(c)
		}
		for _, one := range []*stream{s, late} {
			if got := one.all(nil); got.out != "hello\nended\n" || got.end == nil || one.err != nil {
				t.Errorf("got %+v, %v", got, one.err)
			}
		}
		hosttest.Until(t, "the end of a process is known to who comes late", func() bool {
			got := h.stream(t.Context(), "/process.Process/Connect", &selected{&selector{PID: &pid}}).all(nil)
			return got.end != nil && got.end.Status == "exit status 0"
		})
		none := uint32(99999)
		for _, method := range []string{"SendSignal", "CloseStdin", "Update", "SendInput"} {
			if c := h.call("/process.Process/"+method, &selected{&selector{PID: &none}}, &empty{}); c != notFound {
				t.Errorf("%s: got %q", method, c)
			}
		}
	})
}

func TestSignals(t *testing.T) {
	each(t, func(t *testing.T, h *host) {
		for sig, want := range map[signal]string{15: "signal: terminated", 9: "signal: killed"} {
			s := h.stream(t.Context(), "/process.Process/Start", bash("echo begun; exec sleep 1000"))
			got := s.all(func(r ran) {
				if r.out != "" && r.end == nil {
					if c := h.call("/process.Process/SendSignal", &signalRequest{&selector{PID: &r.pid}, sig}, &empty{}); c != "" {
						t.Error(c)
					}
				}
			})
			if got.end == nil || got.end.Status != want || got.end.ExitCode != -1 || got.end.Error == nil {
				t.Errorf("%d: got %+v", sig, got.end)
			}
		}
		// A time limit.
		s := h.stream(t.Context(), "/process.Process/Start", bash("sleep 1000"), "Connect-Timeout-Ms", "300")
		if s.all(nil); s.err == nil || s.err.Code != deadlineExceeded {
			t.Errorf("got %+v", s.err)
		}
		hosttest.Until(t, "it is gone", func() bool { return len(inside.Processes(h.pipeline, "default", h.target.Session)) == 0 })
	})
}

func TestTerminal(t *testing.T) {
	h := newHost(t)
	s := h.stream(t.Context(), "/process.Process/Start", &startRequest{Process: &processConfig{Cmd: "/bin/bash", Args: []string{"--norc", "-i"}}, PTY: &terminal{&terminalSize{80, 24}}})
	sent := 0
	got := s.all(func(r ran) {
		typed := []string{"stty size\n", "", "stty size; exit 5\n"}
		switch {
		case sent == 0 && strings.Contains(r.screen, "$ "), sent == 2 && r.end == nil:
			h.call("/process.Process/SendInput", &inputRequest{&selector{PID: &r.pid}, &processInput{PTY: []byte(typed[sent])}}, &empty{})
			sent++
		case sent == 1 && strings.Contains(r.screen, "24 80"):
			if c := h.call("/process.Process/Update", &updateRequest{&selector{PID: &r.pid}, &terminal{&terminalSize{100, 30}}}, &empty{}); c != "" {
				t.Error(c)
			}
			sent++
			h.call("/process.Process/SendInput", &inputRequest{&selector{PID: &r.pid}, &processInput{PTY: []byte("\n")}}, &empty{})
		}
	})
	if got.end == nil || got.end.ExitCode != 5 || !strings.Contains(got.screen, "24 80") {
		t.Errorf("got %+v, %+v", got, got.end)
	}
}

func TestStreamInput(t *testing.T) {
	h := newHost(t)
	s := h.stream(t.Context(), "/process.Process/Start", &startRequest{Process: &processConfig{Cmd: "cat"}})
	var m processResponse
	s.next(&m)
	pid := m.Event.Start.PID
	var body bytes.Buffer
	add := func(q *streamInputRequest) {
		b := h.marshal(q)
		body.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...))
	}
	add(&streamInputRequest{Start: &selected{&selector{PID: &pid}}})
	for i := range 10 {
		add(&streamInputRequest{Data: &inputData{&processInput{Stdin: fmt.Appendf(nil, "%d ", i)}}})
	}
	res := h.request(t.Context(), http.MethodPost, "/process.Process/StreamInput", &body, "Content-Type", "application/connect+json", "Connect-Content-Encoding", "identity")
	one := &stream{h, res.Body, nil}
	if !one.next(&empty{}) || one.next(&empty{}) || one.err != nil {
		t.Fatalf("got %+v", one.err)
	}
	h.call("/process.Process/CloseStdin", &selected{&selector{PID: &pid}}, &empty{})
	if got := s.all(nil); got.out != "0 1 2 3 4 5 6 7 8 9 " {
		t.Errorf("got %q", got.out)
	}
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

func TestFilesystem(t *testing.T) {
	each(t, func(t *testing.T, h *host) {
		var e entryResponse
		if c := h.call("/filesystem.Filesystem/MakeDir", &pathRequest{"a/b"}, &e); c != "" || e.Entry.Path != "/home/user/a/b" {
			t.Errorf("got %q, %+v", c, e.Entry)
		}
		if c := h.call("/filesystem.Filesystem/Move", &moveRequest{"a/b", "/tmp/c"}, &e); c != "" || e.Entry.Path != "/tmp/c" {
			t.Errorf("got %q, %+v", c, e.Entry)
		}
		if c := h.call("/filesystem.Filesystem/Move", &moveRequest{"/tmp/c", "~/c"}, &e); c != "" || e.Entry.Path != "/home/user/c" || e.Entry.Owner != "user" {
			t.Errorf("got %q, %+v", c, e.Entry)
		}
		var list listDirResponse
		if c := h.call("/filesystem.Filesystem/ListDir", &listDirRequest{Path: "/home/user", Depth: 1}, &list); c != "" || len(list.Entries) != 2 || list.Entries[1].Name != "c" {
			t.Errorf("got %q, %+v", c, list.Entries)
		}
		for _, tt := range []struct {
			method, path string
			want         code
		}{
			{"Stat", "none", notFound}, {"Stat", "~other/x", invalidArgument}, {"Stat", "a\x00b", invalidArgument}, {"MakeDir", "c", alreadyExists},
			{"MakeDir", "/usr/x", permissionDenied}, {"ListDir", "none", notFound}, {"Remove", "none", ""}, {"Remove", "/usr/bin", permissionDenied},
		} {
			if c := h.call("/filesystem.Filesystem/"+tt.method, &pathRequest{tt.path}, &empty{}); c != tt.want && !(tt.want == permissionDenied && c == internal) {
				t.Errorf("%s %q: got %q, want %q", tt.method, tt.path, c, tt.want)
			}
		}
	})
}

func TestWatch(t *testing.T) {
	each(t, func(t *testing.T, h *host) {
		h.call("/filesystem.Filesystem/MakeDir", &pathRequest{"w"}, &entryResponse{})
		ctx, cancel := context.WithCancel(t.Context())
		s := h.stream(ctx, "/filesystem.Filesystem/WatchDir", &watchRequest{"w", true, true}, "Keepalive-Ping-Interval", "1")
		var m watchResponse
		if !s.next(&m) || m.Start == nil {
			t.Fatalf("got %+v, %v", m, s.err)
		}
		var id watcherID
		if c := h.call("/filesystem.Filesystem/CreateWatcher", &watchRequest{Path: "w"}, &id); c != "" {
			t.Fatal(c)
		}
		for m.Keepalive == nil {
			m = watchResponse{}
			s.next(&m)
		}
		h.call("/filesystem.Filesystem/MakeDir", &pathRequest{"w/d"}, &entryResponse{})
		for m.Filesystem == nil {
			m = watchResponse{}
			if !s.next(&m) {
				t.Fatal(s.err)
			}
		}
		if f := m.Filesystem; f.Name != "d" || f.Type != 1 || f.Entry == nil || f.Entry.Type != typeDirectory {
			t.Errorf("got %+v", f)
		}
		var events watcherEvents
		if c := h.call("/filesystem.Filesystem/GetWatcherEvents", &id, &events); c != "" || len(events.Events) != 1 || events.Events[0].Name != "d" {
			t.Errorf("got %q, %+v", c, events.Events)
		}
		for n := range 20 {
			name := "now" + strconv.Itoa(n)
			h.call("/filesystem.Filesystem/MakeDir", &pathRequest{"w/" + name}, &entryResponse{})
			var events watcherEvents
			if c := h.call("/filesystem.Filesystem/GetWatcherEvents", &id, &events); c != "" || len(events.Events) != 1 || events.Events[0].Name != name {
				t.Fatalf("right after a change: got %q, %+v", c, events.Events)
			}
		}
		if c := h.call("/filesystem.Filesystem/RemoveWatcher", &id, &empty{}); c != "" {
			t.Error(c)
		}
		if c := h.call("/filesystem.Filesystem/GetWatcherEvents", &id, &events); c != notFound {
			t.Errorf("got %q", c)
		}
		for path, want := range map[string]code{"none": notFound, "/etc/passwd": invalidArgument} {
			if c := h.call("/filesystem.Filesystem/CreateWatcher", &watchRequest{Path: path}, &id); c != want {
				t.Errorf("%s: got %q", path, c)
			}
		}
		cancel()
		s.body.Close()
		hosttest.Until(t, "the sandbox is idle when its watchers have gone", func() bool {
			i, err := session.InfoOf(h.pipeline, "default", h.target.Session)
			return err == nil && i.State == "idle"
		})
	})
}

// TestWatcherBounds: unfetched events take few bytes, and none after their sandbox has ended.
func TestWatcherBounds(t *testing.T) {
	v := &watcher{}
	e := guest.Event{Name: "f", Op: guest.Created, Entry: &guest.Entry{Path: strings.Repeat("p", 4<<10), Target: strings.Repeat("t", 4<<10)}}
	n := 0
	for v.add(e) == nil {
		n++
	}
	if most := maxWaiting / (8 << 10); n == 0 || n > most {
		t.Errorf("%d events are kept, more than %d", n, most)
	}
	h := newHost(t)
	h.call("/filesystem.Filesystem/MakeDir", &pathRequest{"gone"}, &entryResponse{})
	var id watcherID
	if c := h.call("/filesystem.Filesystem/CreateWatcher", &watchRequest{Path: "gone"}, &id); c != "" {
		t.Fatal(c)
	}
	h.call("/filesystem.Filesystem/Remove", &pathRequest{"gone"}, &empty{})
	hosttest.Until(t, "the watcher has ended", func() bool {
		h.server.mu.Lock()
		v := h.server.watchers[id.ID]
		h.server.mu.Unlock()
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.err != nil
	})
	if _, _, err := pipeline.Do(t.Context(), h.pipeline, session.End{Session: h.target.Session}); err != nil {
		t.Fatal(err)
	}
	h.target.Session = h.sandbox()
	if c := h.call("/filesystem.Filesystem/CreateWatcher", &watchRequest{Path: "."}, &id); c != "" {
		t.Fatal(c)
	}
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	if n := len(h.server.watchers); n != 1 {
		t.Errorf("%d watchers are kept", n)
	}
}

// TestBusyWatcher: more changes than the buffer holds do not end the watcher of a client that fetches them.
func TestBusyWatcher(t *testing.T) {
	v := &watcher{fetching: map[*context.CancelFunc]bool{}, caughtUp: func(ctx context.Context) error { <-ctx.Done(); return nil }}
	v.taken.L = &v.mu
	fetched := make(chan int)
	go func() {
		events, _ := v.fetch(t.Context())
		fetched <- len(events)
	}()
	hosttest.Until(t, "it waits", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.fetching) == 1
	})
	for range maxEvents + 1 {
		if err := v.add(guest.Event{Name: "f"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := <-fetched; n != maxEvents || len(v.events) != 1 {
		t.Errorf("%d events are fetched, and %d are left", n, len(v.events))
	}
}

// TestForms: the number of a form's parts is bounded, and browsers do not run a file as a script.
func TestForms(t *testing.T) {
	h := newHost(t)
	parts := strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n", door.MaxParts+1) + "--b--\r\n"
	res := h.request(t.Context(), "POST", "/files", strings.NewReader(parts), "Content-Type", "multipart/form-data; boundary=b")
	if res.Body.Close(); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(res.Status)
	}
	res = h.request(t.Context(), "GET", "/files?path=/etc/passwd", nil)
	if res.Body.Close(); res.StatusCode != http.StatusOK || res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Error(res.Status, res.Header)
	}
}

// TestProtocol sends invalid calls.
func TestProtocol(t *testing.T) {
	h := newHost(t)
	ctx := t.Context()
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
	}{
		{"another method", "GET", "/process.Process/List", "", nil, 405},
		{"no content type", "POST", "/process.Process/List", "{}", nil, 415},
		{"gRPC", "POST", "/process.Process/List", "{}", []string{"Content-Type", "application/grpc"}, 415},
		{"no such method", "POST", "/process.Process/None", "{}", []string{"Content-Type", "application/json"}, 404},
		{"no JSON", "POST", "/filesystem.Filesystem/Stat", "{", []string{"Content-Type", "application/json"}, 400},
		{"no message", "POST", "/filesystem.Filesystem/Stat", "\xff", []string{"Content-Type", "application/proto"}, 400},
		{"compressed", "POST", "/filesystem.Filesystem/Stat", string(zipped([]byte("{}"))), []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 501},
		{"too much", "POST", "/filesystem.Filesystem/Stat", strings.Repeat(" ", maxMessage+1), []string{"Content-Type", "application/json", "Content-Encoding", "identity"}, 429},
		{"a timeout of words", "POST", "/filesystem.Filesystem/Stat", "{}", []string{"Content-Type", "application/json", "Connect-Timeout-Ms", "soon"}, 400},
		{"another user", "POST", "/process.Process/List", "{}", []string{"Content-Type", "application/json", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("eve:"))}, 401},
		{"root, who is the same", "POST", "/process.Process/List", "{}", []string{"Content-Type", "application/json", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("root:"))}, 200},
		{"no token", "POST", "/process.Process/List", "{}", []string{"Content-Type", "application/json", "X-Access-Token", ""}, 401},
		{"another token", "POST", "/process.Process/List", "{}", []string{"Content-Type", "application/json", "X-Access-Token", "x"}, 401},
		{"health needs none", "GET", "/health", "", []string{"X-Access-Token", ""}, 204},
		{"the host's own", "POST", "/init", "{}", nil, 404},
		{"envs", "GET", "/envs", "", nil, 200},
	} {
		res := h.request(ctx, tt.method, tt.path, strings.NewReader(tt.body), tt.headers...)
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != tt.status {
			t.Errorf("%s: got %d: %s, want %d", tt.name, res.StatusCode, text, tt.status)
		}
	}
	for name, body := range map[string]string{
		"no envelope": "", "half of one": "\x00\x00", "a promise": "\x00\x00\x00\x00\x09{}", "too much": "\x00\xff\xff\xff\xff{}", "flags": "\x40\x00\x00\x00\x02{}", "compressed": "\x01\x00\x00\x00\x02{}",
	} {
		res := h.request(ctx, http.MethodPost, "/process.Process/Start", strings.NewReader(body), "Content-Type", "application/connect+json", "Connect-Content-Encoding", "gzip")
		s := &stream{h, res.Body, nil}
		if s.next(&processResponse{}) || s.err == nil || !slices.Contains([]code{invalidArgument, resourceExhausted, unimplemented}, s.err.Code) {
			t.Errorf("%s: got %+v", name, s.err)
		}
	}
}

// signature returns the parameters that SDKs add to a URL.
func (h *host) signature(path, operation, user, until string) string {
	text := path + ":" + operation + ":" + user + ":" + h.target.Token
	if until != "" {
		text += ":" + until
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

func TestFiles(t *testing.T) {
	h := newHost(t)
	ctx := t.Context()
	big := make([]byte, 3<<20)
	rand.Read(big)
	do := func(method, path string, body []byte, headers ...string) (int, []byte, http.Header) {
		t.Helper()
		res := h.request(ctx, method, path, bytes.NewReader(body), headers...)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return res.StatusCode, text, res.Header
	}
	const raw = "application/octet-stream"
	status, text, _ := do("POST", "/files?path=d/big&username=user", big, "Content-Type", raw, "X-Metadata-Author", "me")
	if status != 200 || strings.TrimSpace(string(text)) != `[{"path":"/home/user/d/big","name":"big","type":"file","metadata":{"author":"me"}}]` {
		t.Errorf("got %d: %s", status, text)
	}
	if status, got, head := do("GET", "/files?path=/home/user/d/big", nil, "Accept-Encoding", "identity"); status != 200 || !bytes.Equal(got, big) || head.Get("Content-Length") != fmt.Sprint(len(big)) {
		t.Errorf("got %d, %d bytes, %v", status, len(got), head)
	}
	status, got, head := do("GET", "/files?path=d/big", nil, "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(bytes.NewReader(got))
	if err != nil || status != 200 || head.Get("Content-Encoding") != "gzip" {
		t.Fatalf("got %d, %v, %v", status, head, err)
	}
	if got, err = io.ReadAll(z); err != nil || !bytes.Equal(got, big) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for _, name := range []string{"m/one.txt", "/tmp/two.txt"} {
		part, _ := w.CreateFormFile("file", name)
		io.WriteString(part, "in "+name)
	}
	w.Close()
	if status, text, _ := do("POST", "/files", zipped(form.Bytes()), "Content-Type", w.FormDataContentType(), "Content-Encoding", "gzip"); status != 200 || !strings.Contains(string(text), `"/tmp/two.txt"`) {
		t.Errorf("got %d: %s", status, text)
	}
	if status, text, _ := do("GET", "/files?path=m/one.txt", nil); status != 200 || string(text) != "in m/one.txt" {
		t.Errorf("got %d: %s", status, text)
	}
	for _, tt := range []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"none", "GET", "/files?path=none", nil, 404},
		{"a directory", "GET", "/files?path=d", nil, 400},
		{"a file of the host", "GET", "/files?path=/etc/shadow", nil, 404},
		{"memory", "GET", "/files?path=/proc/1/mem", nil, 403},
		{"no encoding", "GET", "/files?path=d/big", []string{"Accept-Encoding", "identity;q=0"}, 406},
		{"another user", "GET", "/files?path=d/big&username=eve", nil, 401},
		{"over a directory", "POST", "/files?path=d", []string{"Content-Type", raw}, 400},
		{"to the system", "POST", "/files?path=/usr/bin/x", []string{"Content-Type", raw}, 403},
		{"no path", "POST", "/files", []string{"Content-Type", raw}, 400},
		{"no kind", "POST", "/files?path=x", nil, 400},
		{"no gzip", "POST", "/files?path=x", []string{"Content-Type", raw, "Content-Encoding", "gzip"}, 400},
		{"metadata too long", "POST", "/files?path=x", []string{"Content-Type", raw, "X-Metadata-A", strings.Repeat("x", 5000)}, 400},
		{"no token", "GET", "/files?path=d/big", []string{"X-Access-Token", ""}, 401},
		{"another token", "GET", "/files?path=d/big&signature=" + url.QueryEscape(h.signature("d/big", "read", "", "")), []string{"X-Access-Token", "x"}, 401},
	} {
		if status, text, _ := do(tt.method, tt.path, nil, tt.headers...); status != tt.status {
			t.Errorf("%s: got %d: %.200s, want %d", tt.name, status, text, tt.status)
		}
	}
	soon, past := fmt.Sprint(time.Now().Unix()+1000), fmt.Sprint(time.Now().Unix()-10)
	for _, tt := range []struct {
		name, query, signature string
		status                 int
	}{
		{"signed", "path=d/big", h.signature("d/big", "read", "", ""), 200},
		{"signed with an end", "path=d/big&username=root&signature_expiration=" + soon, h.signature("d/big", "read", "root", soon), 200},
		{"over", "path=d/big&signature_expiration=" + past, h.signature("d/big", "read", "", past), 401},
		{"the end changed", "path=d/big&signature_expiration=" + soon, h.signature("d/big", "read", "", past), 401},
		{"for writing", "path=d/big", h.signature("d/big", "write", "", ""), 401},
		{"of another path", "path=both", h.signature("d/big", "read", "", ""), 401},
		{"empty", "path=d/big", "", 401},
	} {
		if status, text, _ := do("GET", "/files?"+tt.query+"&signature="+url.QueryEscape(tt.signature), nil, "X-Access-Token", ""); status != tt.status {
			t.Errorf("%s: got %d: %.100s, want %d", tt.name, status, text, tt.status)
		}
	}
	// More than the disk holds.
	if status, text, _ := do("POST", "/files?path=huge", make([]byte, 600<<20), "Content-Type", raw); status != 507 {
		t.Errorf("got %d: %s", status, text)
	}
}

func TestPort(t *testing.T) {
	h := newHost(t)
	hosttest.Program(t, "python3")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.server.ServePort(w, r, h.target, 8000, "") }))
	defer web.Close()
	get := func() (int, string) {
		r, _ := http.NewRequest(http.MethodGet, web.URL+"/shown", nil)
		r.Header.Set("X-Access-Token", "secret")
		r.Header.Set("Cookie", "a=1; sandboxmcp=the-page; b=2")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	if status, text := get(); status != http.StatusBadGateway || !strings.Contains(text, "nothing listens on port 8000") {
		t.Errorf("got %d: %s", status, text)
	}
	h.stream(t.Context(), "/process.Process/Start", bash(`python3 -c "
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(f'{self.path} {self.headers.get(\"X-Access-Token\")} {self.headers.get(\"Cookie\")}'.encode())
http.server.HTTPServer(('127.0.0.1', 8000), H).serve_forever()"`))
	hosttest.Until(t, "the program inside answers", func() bool {
		status, text := get()
		return status == http.StatusOK && text == "/shown None a=1; b=2"
	})
}

// TestManyClients runs commands for concurrent clients, some of which disconnect, and checks that nothing remains.
func TestManyClients(t *testing.T) {
	h := newHost(t)
	clients, rounds := 16, hosttest.Rounds(5, 160)
	if rounds > 5 {
		clients = 64
	}
	var sandboxes []string
	for range 4 {
		sandboxes = append(sandboxes, h.sandbox())
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.server.Serve(w, r, Target{Namespace: "default", Session: r.Header.Get("E2b-Sandbox-Id"), Token: h.target.Token})
	}))
	defer web.Close()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			own := *h
			own.url, own.binary = web.URL, i%2 == 0
			sandbox := sandboxes[i%len(sandboxes)]
			for j := range rounds {
				if i%8 == 7 { // disconnects in the middle of a flood
					ctx, cancel := context.WithCancel(t.Context())
					s := own.stream(ctx, "/process.Process/Start", bash("yes | head -c 1000000"), "E2b-Sandbox-Id", sandbox)
					s.next(&processResponse{})
					s.next(&processResponse{})
					cancel()
					s.body.Close()
					continue
				}
				want := fmt.Sprintf("%d %d\n", i, j)
				s := own.stream(t.Context(), "/process.Process/Start", bash("echo "+strings.TrimSpace(want)), "E2b-Sandbox-Id", sandbox)
				if got := s.all(nil); got.out != want || got.end == nil || s.err != nil {
					t.Errorf("got %+v, %+v, want %q", got, s.err, want)
				}
			}
		})
	}
	all.Wait()
	for _, sandbox := range sandboxes {
		hosttest.Until(t, "no process is left", func() bool { return len(inside.Processes(h.pipeline, "default", sandbox)) == 0 })
		if u, err := session.UsageOf(h.pipeline, "default", sandbox); err != nil || u.Processes > 0 {
			t.Errorf("got %+v, %v", u, err)
		}
	}
	kinds := map[string]int{}
	for row, err := range h.log.Rows(t.Context(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[row.Kind]++
	}
	if want := clients * rounds; kinds["execution.started"] != want || kinds["execution.completed"]+kinds["execution.failed"]+kinds["execution.timeout"] != want {
		t.Errorf("got %v, want %d executions", kinds, want)
	}
}

// TestSandboxEnds: a broken connection tells a client that its sandbox has ended.
func TestSandboxEnds(t *testing.T) {
	h := newHost(t)
	s := h.stream(t.Context(), "/process.Process/Start", bash("sleep 1000"))
	s.next(&processResponse{})
	watching := h.stream(t.Context(), "/filesystem.Filesystem/WatchDir", &watchRequest{Path: "/home/user"})
	watching.next(&watchResponse{})
	if _, _, err := pipeline.Do(t.Context(), h.pipeline, session.End{Session: h.target.Session}); err != nil {
		t.Fatal(err)
	}
	if got := s.all(nil); got.end != nil || s.err == nil || s.err.Code != unknown {
		t.Errorf("got %+v, %+v", got, s.err)
	}
	if watching.next(&watchResponse{}) {
		t.Error("the watch goes on")
	}
	if c := h.call("/process.Process/List", &empty{}, &listResponse{}); c != "" {
		t.Logf("a list of a sandbox that has ended: %s", c)
	}
	if c := h.call("/filesystem.Filesystem/Stat", &pathRequest{"/"}, &entryResponse{}); c != unavailable {
		t.Errorf("got %q", c)
	}
}

// TestNoToken: a sandbox without a token admits nobody.
func TestNoToken(t *testing.T) {
	h := newHost(t)
	h.target.Token = ""
	for _, tt := range [][3]string{{"POST", "/process.Process/List", "{}"}, {"GET", "/envs", ""}, {"GET", "/files?path=/etc/passwd", ""}, {"POST", "/files?path=x", "x"},
		{"GET", "/files?path=x&signature=" + url.QueryEscape(h.signature("x", "read", "", "")), ""}} {
		for _, token := range []string{"", "x"} {
			res := h.request(t.Context(), tt[0], tt[1], strings.NewReader(tt[2]), "Content-Type", "application/json", "X-Access-Token", token)
			if res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %q: %s", tt[1], token, res.Status)
			}
		}
	}
}

// TestFarTimes: a file with an unrepresentable time is listed and described like others.
func TestFarTimes(t *testing.T) {
	each(t, func(t *testing.T, h *host) {
		h.stream(t.Context(), "/process.Process/Start", bash("touch -d @999999999999 far; touch -d @-99999999999 past; ls -l")).all(nil)
		var list listDirResponse
		if c := h.call("/filesystem.Filesystem/ListDir", &listDirRequest{Path: "."}, &list); c != "" || len(list.Entries) != 2 {
			t.Errorf("got %q, %+v", c, list.Entries)
		}
		for name, want := range map[string]int{"far": 9999, "past": 1} {
			var e entryResponse
			if c := h.call("/filesystem.Filesystem/Stat", &pathRequest{name}, &e); c != "" || time.Unix(e.Entry.Modified.Seconds, 0).UTC().Year() != want {
				t.Errorf("%s: got %q, %+v", name, c, e.Entry)
			}
		}
	})
}

// streamed is a body that records the idle time it is allowed.
type streamed struct {
	io.ReadCloser
	idle time.Duration
}

func (s *streamed) AllowIdle(idle time.Duration) { s.idle = idle }

// TestStreamInputIsAStream: a client with the token may be silent between inputs; one without it may not.
func TestStreamInputIsAStream(t *testing.T) {
	h := newHost(t)
	for token, want := range map[string]time.Duration{h.target.Token: maxQuiet, "x": 0} {
		body := &streamed{ReadCloser: io.NopCloser(strings.NewReader(""))}
		r := httptest.NewRequest(http.MethodPost, "/process.Process/StreamInput", body)
		r.Header.Set("X-Access-Token", token)
		r.Header.Set("Content-Type", "application/connect+json")
		if h.server.Serve(httptest.NewRecorder(), r, h.target); body.idle != want {
			t.Errorf("%q: got %s, want %s", token, body.idle, want)
		}
	}
}

// TestUploadNoMemory: an upload without memory for it is refused with a Retry-After, wherever its memory ran out.
func TestUploadNoMemory(t *testing.T) {
	h := newHost(t)
	const form = "multipart/form-data; boundary=b"
	for name, q := range map[string]struct{ path, kind, encoding, text string }{
		"a file":             {"/files?path=f", "application/octet-stream", "", strings.Repeat("x", 1<<20)},
		"a compressed file":  {"/files?path=f", "application/octet-stream", "gzip", ""},
		"the head of a part": {"/files?path=f", form, "", "--b\r\nA: "},
		"a part":             {"/files?path=f", form, "", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 1<<20)},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, q.path, io.MultiReader(strings.NewReader(q.text), iotest.ErrReader(door.Busy(http.StatusServiceUnavailable, "busy"))))
		r.Header.Set("X-Access-Token", h.target.Token)
		r.Header.Set("Content-Type", q.kind)
		r.Header.Set("Content-Encoding", q.encoding)
		if h.server.Serve(w, r, h.target); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "busy") {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
}
