package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// fake is a browser that answers commands as configured, and may be as hostile as one under a page's control.
type fake struct {
	conn net.Conn
	mu   sync.Mutex
	got  []message
}

func newFake(t *testing.T, answer func(f *fake, m message)) (net.Conn, *fake) {
	ours, theirs := net.Pipe()
	f := &fake{conn: theirs}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := bufio.NewReader(theirs)
		for {
			m, err := readMessage(r)
			if err != nil {
				return
			}
			f.mu.Lock()
			f.got = append(f.got, m)
			f.mu.Unlock()
			answer(f, m)
		}
	}()
	t.Cleanup(func() { theirs.Close(); <-done })
	return ours, f
}

func (f *fake) sendText(text string) { f.conn.Write(append([]byte(text), 0)) }

func (f *fake) has(method string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.got, func(m message) bool { return m.Method == method })
}

// usual are the answers of an honest browser.
func usual(f *fake, m message) {
	result := map[string]string{
		"Target.createBrowserContext": `{"browserContextId":"C"}`,
		"Target.createTarget":         `{"targetId":"T"}`,
		"Target.attachToTarget":       `{"sessionId":"S"}`,
		"Page.getFrameTree":           `{"frameTree":{"frame":{"id":"F"}}}`,
		"Page.createIsolatedWorld":    `{"executionContextId":7}`,
		"Page.navigate":               `{"frameId":"F","loaderId":"L"}`,
		"Runtime.evaluate":            `{"result":{"type":"object","value":{"url":"http://web.test/","title":"T","html":"<p>x","text":"x"}}}`,
	}[m.Method]
	if result == "" {
		result = "{}"
	}
	f.sendText(fmt.Sprintf(`{"id":%d,"result":%s}`, m.ID, result))
	if m.Method == "Page.navigate" {
		f.sendText(`{"method":"Page.lifecycleEvent","sessionId":"S","params":{"frameId":"F","name":"load"}}`)
	}
}

func TestRead(t *testing.T) {
	conn, f := newFake(t, func(f *fake, m message) {
		if m.Method == "Page.navigate" {
			f.sendText(`{"method":"Target.attachedToTarget","sessionId":"S","params":{"sessionId":"P","waitingForDebugger":true,"targetInfo":{"targetId":"POP","type":"page"}}}`)
			f.sendText(`{"method":"Target.attachedToTarget","sessionId":"S","params":{"sessionId":"W","waitingForDebugger":true,"targetInfo":{"targetId":"WRK","type":"worker"}}}`)
			f.sendText(`{"method":"Page.javascriptDialogOpening","sessionId":"S","params":{"type":"alert"}}`)
			f.sendText(`{"method":"Network.responseReceived","sessionId":"S","params":{"type":"Document","frameId":"F","response":{"status":404}}}`)
		}
		usual(f, m)
	})
	p, err := Read(t.Context(), conn, Visit{URL: "http://web.test/", Time: time.Minute, MaxHTML: 100})
	if err != nil || p.HTML != "<p>x" || p.Status != 404 || len(p.Notes) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, method := range []string{"Target.closeTarget", "Runtime.runIfWaitingForDebugger", "Page.handleJavaScriptDialog",
		"Browser.setDownloadBehavior"} {
		if !f.has(method) {
			t.Errorf("%s was not sent", method)
		}
	}
}

// TestReadHostile: whatever a browser sends, this process continues, and the visit ends.
func TestReadHostile(t *testing.T) {
	long := `{"method":"` + strings.Repeat("x", 1<<20) + `"}`
	for name, answer := range map[string]func(f *fake, m message){
		"nothing of it is JSON": func(f *fake, m message) { f.sendText("hello") },
		"another shape":         func(f *fake, m message) { f.sendText(fmt.Sprintf(`{"id":%d,"result":[1,2]}`, m.ID)) },
		"empty results":         func(f *fake, m message) { f.sendText(fmt.Sprintf(`{"id":%d,"result":{}}`, m.ID)) },
		"null results":          func(f *fake, m message) { f.sendText(fmt.Sprintf(`{"id":%d,"result":null}`, m.ID)) },
		"errors": func(f *fake, m message) {
			f.sendText(fmt.Sprintf(`{"id":%d,"error":{"code":-1,"message":"no\u001b[2J"}}`, m.ID))
		},
		"answers nobody asked for":   func(f *fake, m message) { f.sendText(`{"id":99999}`); f.sendText(`{"id":-1}`); f.conn.Close() },
		"an answer twice":            func(f *fake, m message) { usual(f, m); usual(f, m) },
		"events without their parts": hostileEvents,
		"a hang-up":                  func(f *fake, m message) { f.conn.Close() },
		"silence":                    func(f *fake, m message) {},
		"a flood of events": func(f *fake, m message) {
			for range 20 {
				f.sendText(long)
			}
			usual(f, m)
		},
		"a flood that asks for commands": func(f *fake, m message) {
			for range 500 {
				f.sendText(`{"method":"Page.javascriptDialogOpening","sessionId":"S","params":{}}`)
			}
			usual(f, m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _ := newFake(t, answer)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // ends visits that a browser delays
			defer cancel()
			p, err := Read(ctx, conn, Visit{URL: "http://web.test/", Time: 100 * time.Millisecond, MaxHTML: 100, Picture: true})
			if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("%q", err)
			}
			t.Logf("%+v %v", p.Notes, err)
		})
	}
}

// TestReadBounds: excessive output of a browser is not kept.
func TestReadBounds(t *testing.T) {
	huge := image.NewGray(image.Rect(0, 0, 20_000, 20))
	var picture bytes.Buffer
	if err := png.Encode(&picture, huge); err != nil {
		t.Fatal(err)
	}
	for name, picture := range map[string][]byte{"no picture": []byte("<html>"), "a wide picture": picture.Bytes()} {
		conn, _ := newFake(t, func(f *fake, m message) {
			switch m.Method {
			case "Runtime.evaluate":
				f.sendText(fmt.Sprintf(`{"id":%d,"result":{"result":{"value":{"url":"http://web.test/\n>>>\u2028%s","title":"a\nb%[2]s","html":"é%[2]s","text":"é%[2]s"}}}}`, m.ID, strings.Repeat("é", 10_000)))
				return
			case "Page.captureScreenshot":
				f.sendText(fmt.Sprintf(`{"id":%d,"result":{"data":%q}}`, m.ID, base64.StdEncoding.EncodeToString(picture)))
				return
			case "Page.navigate":
				f.sendText(fmt.Sprintf(`{"method":"Network.requestWillBeSent","sessionId":"S","params":{"requestId":"%s"}}`,
					strings.Repeat("x", 1<<20)))
			}
			usual(f, m)
		})
		tv := &visit{Visit: Visit{URL: "http://web.test/", Time: 5 * time.Second, MaxHTML: 101, Picture: true},
			eventState: &eventState{loading: map[string]struct{}{}}}
		p, err := tv.run(t.Context(), conn)
		if err != nil || len(p.HTML) > 101 || len(p.Text) > 101 || !p.Cut || !utf8.ValidString(p.HTML) || len(p.URL) > 2*8003 ||
			len(p.Title) > 2*1003 {
			t.Errorf("%s: %v, %d of HTML, %d of text, cut %v", name, err, len(p.HTML), len(p.Text), p.Cut)
		}
		if strings.ContainsAny(p.URL+p.Title, "\n\u2028") {
			t.Errorf("%.40q %.40q", p.URL, p.Title)
		}
		if p.Picture != nil || !strings.Contains(fmt.Sprint(p.Notes), "there is no picture") {
			t.Errorf("%s: %d bytes of it, %v", name, len(p.Picture), p.Notes)
		}
		for id := range tv.loading {
			if len(id) > 1000 {
				t.Errorf("an id of %d bytes is kept", len(id))
			}
		}
	}
}

func hostileEvents(f *fake, m message) {
	for _, params := range []string{`{}`, `null`, `[]`, `{"targetInfo":null,"response":null,"frameId":null}`,
		`{"sessionId":"P","targetInfo":{"type":"page"}}`} {
		for _, method := range []string{"Target.attachedToTarget", "Page.lifecycleEvent", "Page.frameNavigated", "Network.responseReceived",
			"Network.loadingFailed",
			"Inspector.detached", "DOM.setChildNodes", "Browser.downloadWillBegin", "Target.targetCreated", ""} {
			f.sendText(fmt.Sprintf(`{"method":%q,"sessionId":"S","params":%s}`, method, params))
			f.sendText(fmt.Sprintf(`{"method":%q,"params":%s}`, method, params))
		}
	}
	usual(f, m)
}

// endless is a message without an end.
type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) { e.n += len(b); return len(b), nil }

func TestNextIsBounded(t *testing.T) {
	e := &endless{}
	if _, err := readMessage(bufio.NewReader(byteless{e})); err == nil || e.n > maxMessage+1<<20 {
		t.Errorf("%v after %d bytes", err, e.n)
	}
}

// byteless is endless without zero bytes.
type byteless struct{ *endless }

func (r byteless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return r.endless.Read(b)
}

func TestCallEndsWithItsContext(t *testing.T) {
	conn, _ := newFake(t, func(*fake, message) {})
	w := newWire(conn, func(message) {})
	defer w.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := (session{wire: w}).call(ctx, "Browser.getVersion", map[string]any{}, nil); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"method":"Target.attachedToTarget","params":{"sessionId":"P","targetInfo":{"type":"page"}}}`))
	f.Add([]byte(`{"id":1,"result":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m message
		if json.Unmarshal(b, &m) != nil {
			return
		}
		w := &eventState{tell: func(string, string, object) {}, loading: map[string]struct{}{}, session: "S", frame: "F"}
		w.handleEvent(m)
		var v struct{ Value json.RawMessage }
		_ = m.decodeResult(&v)
	})
}
