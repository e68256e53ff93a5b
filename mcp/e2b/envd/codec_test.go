package envd

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// Clients decode these; the daemon does not.

func (t *fileType) UnmarshalJSON(b []byte) error  { return unmarshalEnum(*t, b, (*int32)(t)) }
func (t *eventType) UnmarshalJSON(b []byte) error { return unmarshalEnum(*t, b, (*int32)(t)) }

func (t *timestamp) UnmarshalJSON(b []byte) error {
	var at time.Time
	err := json.Unmarshal(b, &at)
	*t = *newTimestamp(at)
	return err
}

// TestWire compares encoded messages with those of generated code, byte by byte.
func TestWire(t *testing.T) {
	text := func(s string) *string { return &s }
	yes, no, pid := true, false, uint32(300)
	for _, tt := range []struct {
		name, wire, json string
		message          any
	}{
		{"start", "0a210a09" + hex.EncodeToString([]byte("/bin/bash")) + "1202" + hex.EncodeToString([]byte("-l")) + "1a0a" + "0a03" +
			hex.EncodeToString([]byte("FOO")) + "1203" + hex.EncodeToString([]byte("bar")) +
			"2204" + hex.EncodeToString([]byte("/tmp")) + "120612040850" + "1018" + "1a01" + hex.EncodeToString([]byte("t")) + "2000",
			`{"process":{"cmd":"/bin/bash","args":["-l"],"envs":{"FOO":"bar"},"cwd":"/tmp"},"pty":{"size":{"cols":80,"rows":24}},"tag":"t","stdin":false}`,
			&startRequest{Process: &processConfig{Cmd: "/bin/bash", Args: []string{"-l"}, Envs: map[string]string{"FOO": "bar"}, Cwd: text("/tmp")},
				PTY: &terminal{&terminalSize{80, 24}}, Tag: text("t"), Stdin: &no}},
		{"end", "0a0c1a0a0801" + "1a06" + hex.EncodeToString([]byte("killed")), `{"event":{"end":{"exitCode":-1,"status":"killed"}}}`,
			&processResponse{&processEvent{End: &endEvent{ExitCode: -1, Status: "killed"}}}},
		{"data", "0a0712050a03" + "00ff80", `{"event":{"data":{"stdout":"AP+A"}}}`,
			&processResponse{&processEvent{Data: &dataEvent{Stdout: []byte{0, 255, 128}}}}},
		{"keepalive", "0a022200", `{"event":{"keepalive":{}}}`, &processResponse{&processEvent{Keepalive: &empty{}}}},
		{"selector", "0a0308ac02", `{"process":{"pid":300}}`, &selected{&selector{PID: &pid}}},
		{"empty tag", "0a021200", `{"process":{"tag":""}}`, &selected{&selector{Tag: text("")}}},
		{"signal", "0a0308ac021009", `{"process":{"pid":300},"signal":9}`, &signalRequest{&selector{PID: &pid}, 9}},
		{"watch", "0a0161" + "1001" + "1801", `{"path":"a","recursive":true,"includeEntry":true}`, &watchRequest{"a", true, true}},
		{"event", "12080a016110021a020a00", "", nil},
		{"entry", "0a0c0a01611001" + "2005" + "4a0208ac02"[:4] + "08" + "64", "", nil},
		{"stdin is there", "2001", `{"stdin":true}`, &startRequest{Stdin: &yes}},
	} {
		if tt.message == nil {
			continue
		}
		if got := hex.EncodeToString(encode(tt.message)); tt.name != "start" && got != tt.wire {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.wire)
		}
		text, err := json.Marshal(tt.message)
		if err != nil || string(text) != tt.json {
			t.Errorf("%s: got %s, %v, want %s", tt.name, text, err, tt.json)
		}
		for _, from := range []func(any) error{
			func(m any) error { return decode(encode(tt.message), m) },
			func(m any) error { return json.Unmarshal([]byte(tt.json), m) },
		} {
			back := reflect.New(reflect.TypeOf(tt.message).Elem()).Interface()
			if err := from(back); err != nil || !reflect.DeepEqual(back, tt.message) {
				t.Errorf("%s: got %+v, %v", tt.name, back, err)
			}
		}
	}
	var s signalRequest
	if err := json.Unmarshal([]byte(`{"signal":"SIGNAL_SIGTERM"}`), &s); err != nil || s.Signal != 15 {
		t.Errorf("got %v, %v", s, err)
	}
	e := entryInfo{Name: "a", Type: typeFile, Size: 5, Modified: newTimestamp(time.Unix(100, 5))}
	if got, err := json.Marshal(e); err != nil || string(
		got) != `{"name":"a","type":"FILE_TYPE_FILE","size":"5","modifiedTime":"1970-01-01T00:01:40.000000005Z"}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got := hex.EncodeToString(encode(&e)); got != "0a0161"+"1001"+"2005"+"4a0408641005" {
		t.Errorf("got %s", got)
	}
}

// FuzzDecode: any input is decoded or refused, and a decoded message is encoded to the same again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x0a\x03\x08\xac\x02\x10\x09"))
	f.Add(bytes.Repeat([]byte{0x0a, 0x7f}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []any{&startRequest{}, &inputRequest{}, &streamInputRequest{}, &entryResponse{}} {
			if decode(b, m) != nil {
				continue
			}
			back := reflect.New(reflect.TypeOf(m).Elem()).Interface()
			if err := decode(encode(m), back); err != nil || !reflect.DeepEqual(back, m) {
				t.Errorf("%+v became %+v, %v", m, back, err)
			}
		}
	})
}

func TestAcceptable(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "gzip": "gzip", "gzip, deflate": "gzip", "GZIP;q=0.5": "gzip", "identity": "", "br": "", "*": "", "gzip;q=0": "",
		"identity;q=1, gzip;q=0.5": "",
		"*;q=0":                    "none", "identity;q=0": "none", "br, identity;q=0, *": "gzip", "identity;q=0, gzip": "gzip",
		"*;q=0, identity": "",
	} {
		got, ok := acceptable(header)
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
}

// TestRepeated: a message with many empty values does not take far more memory than its size.
func TestRepeated(t *testing.T) {
	one := encode(&processConfig{Args: []string{""}})
	for n, want := range map[int]error{maxRepeated: nil, maxRepeated + 1: errWire} {
		var c processConfig
		if err := decode(bytes.Repeat(one, n), &c); err != want {
			t.Errorf("%d values: %v", n, err)
		}
	}
}

// gone is a response to a disconnected client.
type gone struct {
	header http.Header
	status []int
}

func (g *gone) Header() http.Header       { return g.header }
func (g *gone) WriteHeader(status int)    { g.status = append(g.status, status) }
func (g *gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestGone: a client that does not read its answer gets no second one.
func TestGone(t *testing.T) {
	w := &gone{header: http.Header{}}
	c := &call{w: w}
	c.endCall(c.reply(&empty{}))
	if len(w.status) > 0 {
		t.Errorf("it was answered with %d as well", w.status)
	}
}

// TestLost: a stream ends when its client does not read its keepalives. Over HTTP/1 there is no other sign that a
// client is gone that has not sent all of its body, and its program may be silent for hours.
func TestLost(t *testing.T) {
	for _, every := range []string{"1", "9223372036854775807", ""} { // the second overflows a Duration
		synctest.Test(t, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			r.Header.Set("Content-Type", "application/connect+json")
			r.Header.Set("Keepalive-Ping-Interval", every)
			w := &leaving{ResponseRecorder: httptest.NewRecorder()}
			c := new(Server).openCall(w, r, Target{})
			defer c.close()
			c.keepalive = &processResponse{&processEvent{Keepalive: &empty{}}}
			if err := c.send(&processResponse{&processEvent{Start: &startEvent{1}}}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-c.ctx.Done():
			case <-time.After(2 * time.Hour):
				t.Errorf("%q: it goes on without a client", every)
			}
		})
	}
}

// leaving is a response whose client reads one message.
type leaving struct {
	*httptest.ResponseRecorder
	n int
}

func (l *leaving) Write(b []byte) (int, error) {
	if l.n++; l.n > 1 {
		return 0, io.ErrClosedPipe
	}
	return l.ResponseRecorder.Write(b)
}

// TestNoMemory: a message without memory for it is refused with a Retry-After, wherever its memory ran out.
func TestNoMemory(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(door.Busy(status, "busy")))
		c := &call{w: w, r: r, ctx: t.Context()}
		if c.endCall(c.receive(&pathRequest{})); w.Code != status || w.Header().Get("Retry-After") == "" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		for read, text := range map[string]string{"the head of a part": "", "a part": "\x00\x00\x00\x00\x09{}"} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(text), iotest.ErrReader(door.Busy(status, "busy"))))
			c := &call{w: w, r: r, ctx: t.Context(), stream: true}
			if c.endCall(c.receive(&pathRequest{})); !strings.Contains(w.Body.String(), "busy") || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: got %s", read, w.Body)
			}
		}
	}
}
