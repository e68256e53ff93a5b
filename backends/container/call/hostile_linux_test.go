package call

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/backends/duplex"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// answerAll starts an init that answers every request for its sandbox in the same way.
func answerAll(t testing.TB, spec backends.Spec, answer func(w http.ResponseWriter, r *http.Request, q request)) (*Conn, backends.Sandbox) {
	t.Helper()
	l, _ := newPuppet(t, func(conn io.ReadWriteCloser) {
		duplex.Serve(newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var q request
			switch err := json.Unmarshal([]byte(r.Header.Get(messageName)), &q); {
			case err != nil:
				t.Error(err)
			case q.Op == opBuild:
				writeMessage(w, response{})
			default:
				answer(w, r, q)
			}
		}), true), duplex.New(conn))
	})
	l.initTimeout = 200 * time.Millisecond
	s, err := l.Build(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return l, s
}

// trailer is a message in the trailer.
type trailer response

// writeMessages writes messages, and invalid bytes.
func writeMessages(w http.ResponseWriter, words ...any) {
	for _, word := range words {
		switch word := word.(type) {
		case []byte:
			w.Write(word)
		case trailer:
			setTrailer(w.Header(), response(word))
		case response:
			writeMessage(w, word)
		}
	}
}

// TestLies: a message that our own init never sends ends the connection.
func TestLies(t *testing.T) {
	begun := response{Begun: &held}
	ok := backends.Result{End: backends.End{Ended: backends.EndedOK}}
	result := func(change func(*backends.Result)) []any {
		r := ok
		change(&r)
		return []any{begun, trailer{Result: &r}}
	}
	for _, c := range []struct {
		name  string
		words []any
	}{
		{"nothing", nil},
		{"a result before it began", []any{response{Result: &ok}}},
		{"only a trailer", []any{trailer{Result: &ok}}},
		{"no trailer", []any{begun}},
		{"an empty trailer", []any{begun, trailer{}}},
		{"a result in place of the trailer", []any{begun, response{Result: &ok}}},
		{"a file", []any{begun, response{File: &fileEntry{}}}},
		{"an empty message", []any{response{}}},
		{"refused", result(func(r *backends.Result) { r.Ended, r.ExitCode = backends.EndedRefused, 1 })},
		{"no end", result(func(r *backends.Result) { r.Ended = "" })},
		{"cancelled by nobody", result(func(r *backends.Result) { r.Ended, r.ExitCode = backends.EndedCancelled, 137 })},
		{"an exit code with ok", result(func(r *backends.Result) { r.ExitCode = 1 })},
		{"none with exit", result(func(r *backends.Result) { r.Ended = backends.EndedExit })},
		{"a large exit code", result(func(r *backends.Result) { r.Ended, r.ExitCode = backends.EndedExit, 256 })},
		{"a limit", result(func(r *backends.Result) { r.Limit = "courage" })},
		{"limits", result(func(r *backends.Result) { r.Hit = []string{"\x1b[2J"} })},
		{"a signal", result(func(r *backends.Result) { r.Signal = "\x1b[2J" })},
		{"less than no time", result(func(r *backends.Result) { r.CPU = -1 })},
		{"a layer", []any{response{Begun: &backends.Containment{Layers: []backends.Layer{{Name: "faith", InForce: true}}}}}},
		{"layers", []any{response{Begun: &backends.Containment{Layers: make([]backends.Layer, 100)}}}},
		{"no JSON", []any{[]byte("\x00\x00\x00\x01{")}},
		{"a length", []any{[]byte("\xff\xff\xff\xff")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := answerAll(t, backends.Spec{}, func(w http.ResponseWriter, _ *http.Request, _ request) { writeMessages(w, c.words...) })
			r, err := s.Exec(t.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{Stdout: io.Discard})
			if !errors.Is(err, ErrLost) || r.Ended != "" {
				t.Fatalf("got %+v, %v", r, err)
			}
			<-l.Done()
		})
	}
}

// TestUnended: a result with unfinished output ends the connection, and so does a reset of any response.
func TestUnended(t *testing.T) {
	for name, stderr := range map[string]func(r *http.Request){
		"standard error that stays open": func(r *http.Request) { <-r.Context().Done() },
		"standard error that is reset":   func(*http.Request) { panic(http.ErrAbortHandler) },
	} {
		l, s := answerAll(t, backends.Spec{}, func(w http.ResponseWriter, r *http.Request, q request) {
			if q.Op == opStderr {
				w.Write([]byte("x"))
				http.NewResponseController(w).Flush()
				stderr(r)
			}
			writeMessages(w, response{Begun: &held}, trailer{Result: &backends.Result{End: backends.End{Ended: backends.EndedOK}}})
		})
		r, err := s.Exec(t.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{Stderr: io.Discard})
		if !errors.Is(err, ErrLost) || r.Ended != "" {
			t.Fatalf("%s: got %+v, %v", name, r, err)
		}
		<-l.Done()
	}
}

// TestBelieved: control characters in displayed text are removed.
func TestBelieved(t *testing.T) {
	c := backends.Containment{Backend: "b\x1b[2J", Layers: []backends.Layer{{Name: backends.LayerPID, Detail: strings.Repeat("x", 1<<20/2)}}}
	_, s := answerAll(t, backends.Spec{}, func(w http.ResponseWriter, _ *http.Request, _ request) {
		writeMessages(w, response{Begun: &c}, trailer{Result: &backends.Result{End: backends.End{Ended: backends.EndedOK}, Wall: 100 * time.Hour,
			Contained: backends.Containment{Profile: "other"}}})
	})
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Wall > time.Minute || r.Contained.Profile != "" || strings.Contains(r.Contained.Backend, "\x1b") ||
		len(r.Contained.Layers[0].Detail) > engine.Longest {
		t.Errorf("got %v, %.100q, %d bytes", r.Wall, r.Contained.Backend, len(r.Contained.Layers[0].Detail))
	}
}

func TestLiesAboutFiles(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "a/", ".", "x\x00", strings.Repeat("n", 1<<17)} {
		_, s := answerAll(t, backends.Spec{}, func(w http.ResponseWriter, _ *http.Request, _ request) {
			writeMessages(w, response{File: &fileEntry{Name: []byte(name)}})
		})
		if _, err := s.Files().Each(t.Context(), func(backends.File) error { t.Errorf("%.20q was shown", name); return nil }); !errors.Is(err,
			ErrLost) {
			t.Errorf("%.20q: got %v", name, err)
		}
	}
	// An endless walk ends when its caller stops.
	endless := func(w http.ResponseWriter, r *http.Request, _ request) {
		for writeMessage(w, response{File: &fileEntry{Name: []byte("x")}}) == nil {
		}
	}
	_, s := answerAll(t, backends.Spec{}, endless)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Files().Each(ctx, func(backends.File) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	// A file is complete only if its trailer confirms it.
	for _, words := range [][]any{{response{}, []byte("part")}, {response{}, []byte("part"), trailer{Failure: &failure{Text: "broken"}}}} {
		_, s := answerAll(t, backends.Spec{}, func(w http.ResponseWriter, _ *http.Request, q request) {
			if q.Op == opEach {
				writeMessages(w, response{File: &fileEntry{Name: []byte("x"), Size: 4}}, response{Done: true})
			} else {
				writeMessages(w, words...)
			}
		})
		if _, err := s.Files().Each(t.Context(), func(f backends.File) error {
			r, err := f.Open()
			if err != nil {
				return err
			}
			defer r.Close()
			if text, err := io.ReadAll(r); string(text) != "part" || err == nil {
				t.Errorf("a file that was cut: %q, %v", text, err)
			}
			return nil
		}); err != nil && !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	}
}

var anywhere = netip.MustParseAddrPort("127.0.0.1:1")

// frame returns an HTTP/2 frame.
func frame(kind, flags byte, stream uint32, content []byte) []byte {
	b := append(binary.BigEndian.AppendUint32(nil, uint32(len(content)))[1:], kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), content...)
}

// The kinds of frames.
const (
	frameData, frameHeaders, frameSettings, framePush, framePing = 0, 1, 4, 5, 6
)

// TestFloods: frames that would fill the server's memory end the connection or do nothing.
func TestFloods(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  bool
		frame []byte
	}{
		{"pings", false, frame(framePing, 0, 0, make([]byte, 8))},
		{"streams in the server's name", false, frame(frameHeaders, 4, 101, []byte{0x88})},
		{"streams of its own", false, frame(frameHeaders, 4, 2, []byte{0x88})},
		{"pushes", true, frame(framePush, 4, 1, []byte{0, 0, 0, 2, 0x88})},
		{"content that nobody asked for", true, frame(frameData, 0, 1001, make([]byte, 1<<14))},
		{"a frame that is too long", true, []byte{0xff, 0xff, 0xff, frameData, 0, 0, 0, 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			runtime.GC() // garbage of earlier tests does not count
			l, done := newPuppet(t, func(conn io.ReadWriteCloser) {
				go io.Copy(io.Discard, conn)
				conn.Write(frame(frameSettings, 0, 0, nil))
				for range 1 << 14 {
					if _, err := conn.Write(c.frame); err != nil {
						return
					}
				}
				if c.ends {
					t.Error("all of it was taken")
				}
			})
			<-done
			<-l.Done()
			var m runtime.MemStats
			if runtime.ReadMemStats(&m); m.HeapInuse > 64<<20 {
				t.Errorf("it took %d bytes", m.HeapInuse)
			}
			l.Close()
			waitGoroutines(t, before)
		})
	}
}

// TestUnasked: invalid connections end the whole connection.
func TestUnasked(t *testing.T) {
	for _, m := range []response{{}, {Arrival: &arrival{Conn: 1}}, {Arrival: &arrival{Conn: 1, Local: anywhere}}} {
		l, s := answerAll(t, backends.Spec{Gateway: []int{1}}, func(w http.ResponseWriter, _ *http.Request, _ request) { writeMessages(w, m) })
		if c, err := s.Gateway().Ports[0].Accept(); err == nil {
			t.Errorf("got %v", c)
		}
		<-l.Done()
	}
	// A program's data is complete only if the init confirms it.
	_, s := answerAll(t, backends.Spec{Gateway: []int{1}}, func(w http.ResponseWriter, r *http.Request, q request) {
		switch q.Op {
		case opAccept:
			writeMessages(w, response{Arrival: &arrival{Conn: 1, Local: anywhere, Remote: anywhere}}, []byte("part"))
		case opReceive: // no packet: an empty response would end the connection
			<-r.Context().Done()
		}
	})
	c, err := s.Gateway().Ports[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); string(text) != "part" || err == nil {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestLiesAboutSockets: descriptors other than the requested sockets end the connection, and none stays open.
func TestLiesAboutSockets(t *testing.T) {
	listen := func(network, address string) *os.File {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	packets, err := udp.File()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	tcp, unix := listen("tcp", "127.0.0.1:0"), listen("unix", filepath.Join(t.TempDir(), "s"))
	defer backends.CloseAll([]*os.File{packets, null, tcp, unix})
	for _, c := range []struct {
		name  string
		files []*os.File
		taken bool
	}{
		{"right", []*os.File{packets, tcp, tcp}, true},
		{"none", nil, false},
		{"too few", []*os.File{packets, tcp}, false},
		{"too many", []*os.File{packets, tcp, tcp, tcp}, false},
		{"many more", slices.Repeat([]*os.File{null}, 200), false},
		{"files", []*os.File{null, null, null}, false},
		{"of the wrong order", []*os.File{tcp, packets, tcp}, false},
		{"of the host", []*os.File{packets, unix, tcp}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := countFiles(t)
			ours, theirs := connPair(t, "socket")
			init := theirs.(*Local)
			done := make(chan struct{})
			go func() {
				defer close(done)
				writeMessage(init, greeting{Version: version})
				duplex.Serve(newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if c.files != nil {
						if err := SendFiles(init.files, c.files...); err != nil {
							t.Error(err)
						}
					}
					writeMessage(w, response{})
				}), true), duplex.New(init))
			}()
			l, err := Handshake(t.Context(), ours)
			if err != nil {
				t.Fatal(err)
			}
			_, err = l.Build(t.Context(), backends.Spec{Gateway: []int{1}})
			if c.taken != (err == nil) || !c.taken && !errors.Is(err, ErrLost) {
				t.Errorf("got %v, want taken %v", err, c.taken)
			}
			if err := SendFiles(init.files, null); err == nil {
				t.Error("the server takes more descriptors")
			}
			l.Close()
			<-done
			hosttest.Until(t, "all descriptors are closed", func() bool { return countFiles(t) <= before })
		})
	}
}

// countFiles returns the number of this process's descriptors.
func countFiles(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// scripted is a connection with prepared content.
type scripted struct{ io.Reader }

func (scripted) Write(p []byte) (int, error) { return len(p), nil }
func (scripted) Close() error                { return nil }

// FuzzConn reads arbitrary bytes as an init's connection.
func FuzzConn(f *testing.F) {
	var hello bytes.Buffer
	writeMessage(&hello, greeting{Version: version})
	f.Add(hello.Bytes())
	f.Add(append(bytes.Clone(hello.Bytes()), frame(frameSettings, 0, 0, nil)...))
	f.Add(append(bytes.Clone(hello.Bytes()), frame(frameHeaders, 4, 1, []byte{0x88})...))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Handshake(t.Context(), scripted{bytes.NewReader(data)})
		if err != nil {
			return
		}
		defer l.Close()
		l.initTimeout = time.Millisecond
		s, err := l.Build(t.Context(), backends.Spec{Gateway: []int{1}})
		if err != nil {
			return
		}
		defer s.Close()
		s.Exec(t.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{Stdout: io.Discard})
		s.Files().Each(t.Context(), func(backends.File) error { return nil })
	})
}

// FuzzAnswer answers every request with arbitrary bytes.
func FuzzAnswer(f *testing.F) {
	for _, m := range []response{{Begun: &held}, {Result: &backends.Result{End: backends.End{Ended: "ok"}}},
		{File: &fileEntry{Name: []byte("x")}}, {Done: true}, {Failure: &failure{Text: "x"}}} {
		var b bytes.Buffer
		writeMessage(&b, m)
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, ask := range []func(backends.Sandbox){
			func(s backends.Sandbox) {
				s.Exec(t.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{Stdout: io.Discard})
			},
			func(s backends.Sandbox) {
				s.Files().Each(t.Context(), func(f backends.File) error {
					if r, err := f.Open(); err == nil {
						io.Copy(io.Discard, r)
						r.Close()
					}
					return nil
				})
			},
			func(s backends.Sandbox) { s.Files().Put("x", 0o644, strings.NewReader("x")) },
			func(s backends.Sandbox) { s.Usage(); s.Limit(backends.Limits{}) },
		} {
			l, s := answerAll(t, backends.Spec{}, func(w http.ResponseWriter, _ *http.Request, _ request) {
				w.Write(data)
				w.Header().Set(http.TrailerPrefix+trailerName, base64.StdEncoding.EncodeToString(data[min(4, len(data)):]))
			})
			ask(s)
			l.Close()
		}
	})
}
