package door

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// past waits until a time that a bound allows is over.
func past(t *testing.T, d time.Duration) {
	start := time.Now()
	hosttest.Until(t, "the time is over", func() bool { return time.Since(start) > d })
}

func TestHeaders(t *testing.T) {
	b := usual
	b.header = 50 * time.Millisecond
	slow, _ := start(t, Config{}, b)
	for _, part := range []string{"", "GET / HTTP/1.1\r\nHost: localhost\r\nX: "} {
		if got := raw(t, slow, part); strings.Contains(got, " 200 ") {
			t.Errorf("%q: got %s", part, got)
		}
	}
	d, _ := start(t, Config{}, usual)
	long := "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + secret + strings.Repeat("x", maxHeader+4096)
	if got := raw(t, d, long+"\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("long headers: got %s", got)
	}
	if got := raw(t, d, long[:maxHeader/2]+"\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("shorter headers: got %s", got)
	}
}

func TestBody(t *testing.T) {
	d, _ := start(t, Config{}, usual)
	for name, tt := range map[string]struct {
		size    int64
		chunked bool
		want    string
	}{
		"most":               {MaxBody, false, "HTTP/1.1 / 16777216"},
		"most in chunks":     {MaxBody, true, "HTTP/1.1 / 16777216"},
		"too much":           {MaxBody + 1, false, "more than 16 MiB"},
		"too much in chunks": {MaxBody + 1, true, "more than 16777216"},
	} {
		r := must(http.NewRequest("POST", d.Address(), io.LimitReader(zeros{}, tt.size)))
		if r.Header.Set("Expect", "100-continue"); !tt.chunked {
			r.ContentLength = tt.size
		}
		client := clientOf(t, d)
		client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
		w, err := client.Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body := must(io.ReadAll(w.Body))
		w.Body.Close()
		if !strings.Contains(string(body), tt.want) || (w.StatusCode == 413) != strings.HasPrefix(name, "too") {
			t.Errorf("%s: got %d %s, want %s", name, w.StatusCode, body, tt.want)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A body that does not come ends its request, whether the handler waits for it or not, and over HTTP/2, too.
func TestSlowBody(t *testing.T) {
	b := usual
	b.body, b.rate = 50*time.Millisecond, 1<<30
	read := make(chan error, 1)
	c := Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			_, err := io.ReadAll(r.Body)
			read <- err
		}
	})}
	timedOut := func(name string) {
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the handler read %v", name, err)
		}
	}
	d, _ := start(t, c, b)
	raw(t, d, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1")
	timedOut("length")
	raw(t, d, "POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")
	timedOut("chunks")
	if got := raw(t, d, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1"); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("not read: got %s", got)
	}
	secure := newAuthority(t)
	c.Cert, c.Key = secure.server(t, t.TempDir())
	d, _ = start(t, c, b)
	body, w := io.Pipe()
	defer w.Close()
	r := must(http.NewRequest("POST", d.Address()+"/read", body))
	if w, err := secure.client(t).Do(r); err == nil {
		w.Body.Close()
	}
	timedOut("HTTP/2")
}

// A body may take longer if it goes on to come, and once it is there nothing bounds its answer.
func TestLongBody(t *testing.T) {
	for rate, parts := range map[int64][]string{1: {"1234567", "89"}, 1 << 30: {"123456789", ""}} { // bytes a second
		b := usual
		b.body, b.rate = 500*time.Millisecond, rate
		d, _ := start(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			past(t, 2*b.body)
			if string(body) != "123456789" || err != nil || r.Context().Err() != nil {
				t.Errorf("%v: got %q, %v; then %v", parts, body, err, context.Cause(r.Context()))
			}
		})}, b)
		conn := dial(t, d)
		must(io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 9\r\n\r\n"+parts[0]))
		past(t, 2*b.body)
		must(io.WriteString(conn, parts[1]))
		if got := string(must(io.ReadAll(conn))); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("%v: got %s", parts, got)
		}
	}
}

// A client that doesn't read is dropped; one that reads gets an answer with long pauses.
func TestAnswer(t *testing.T) {
	b := usual
	b.write = 500 * time.Millisecond
	dropped := make(chan error, 1)
	ca := newAuthority(t)
	c := Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		for n := 0; r.URL.Path == "/flood" && err == nil && n < 256; n++ { // 256 MiB are more than all buffers hold
			_, err = w.Write(make([]byte, 1<<20))
		}
		if r.URL.Path == "/flood" {
			dropped <- err
			return
		}
		for range 2 {
			io.WriteString(w, "part ")
			w.(http.Flusher).Flush()
			past(t, 2*b.write)
		}
		io.WriteString(w, "end")
	})}
	plain, _ := start(t, c, b)
	c.Cert, c.Key = ca.server(t, t.TempDir())
	secure, _ := start(t, c, b)
	for d, client := range map[*Door]*http.Client{plain: clientOf(t, plain), secure: ca.client(t)} {
		w, err := client.Get(d.Address() + "/flood")
		if err != nil {
			t.Fatal(err)
		}
		if err := <-dropped; err == nil {
			t.Errorf("%s: 256 MiB were written to nobody", d.Address())
		}
		w.Body.Close()
		if w, err = client.Get(d.Address() + "/pauses"); err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(w.Body); string(body) != "part part end" || err != nil {
			t.Errorf("%s: got %q, %v", d.Address(), body, err)
		}
		w.Body.Close()
	}
}

// A client of HTTP/2 that takes all bytes of a stream, and reads none from its connection, is dropped, too.
func TestFullConnection(t *testing.T) {
	b := usual
	b.write = 200 * time.Millisecond
	dropped := make(chan error, 1)
	d, _ := start(t, Config{Address: unixPrefix + t.TempDir() + "/s", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for n := 0; err == nil && n < 256; n++ {
			_, err = w.Write(make([]byte, 1<<20))
		}
		dropped <- err
	})}, b)
	conn := dial(t, d)
	must(io.WriteString(conn, http2.ClientPreface))
	framer := http2.NewFramer(conn, nil)
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", "/"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	err := errors.Join(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}),
		framer.WriteWindowUpdate(0, 1<<31-1-65535),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndStream: true, EndHeaders: true}))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err == nil {
		t.Error("256 MiB were written to nobody")
	}
}

// A body that its handler takes for a stream may pause longer than a body may take, but not for good.
func TestStreamedBody(t *testing.T) {
	b := usual
	b.body, b.rate = 50*time.Millisecond, 1<<30
	read := make(chan string, 2)
	d, _ := start(t, Config{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		idle, _ := time.ParseDuration(r.Header.Get("Idle"))
		AllowSlowBody(r, idle)
		text, err := io.ReadAll(r.Body)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			text = append(text, "..."...)
		}
		read <- string(text)
	})}, b)
	for idle, want := range map[string]string{"1h": "12", "50ms": "1..."} {
		conn := dial(t, d)
		must(io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nIdle: "+idle+"\r\nContent-Length: 2\r\n\r\n1"))
		past(t, 6*b.body)
		_, _ = io.WriteString(conn, "2")
		if got := <-read; got != want {
			t.Errorf("%s: got %q, want %q", idle, got, want)
		}
	}
}
