package call

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// answering is an init that gives the same answer to whatever is asked.
func answering(t testing.TB, spec backends.Spec, answer func(stream *yamux.Stream, q request)) (*Conn, backends.Sandbox) {
	t.Helper()
	l, _ := puppet(t, func(conn io.ReadWriteCloser) {
		read(conn, &build{}, maxServerMessage)
		write(conn, built{Listeners: len(spec.Listen)}, maxInitMessage)
		session, err := newInitSession(conn, true)
		for err == nil {
			var stream *yamux.Stream
			if stream, err = session.AcceptStream(); err != nil {
				break
			}
			go func() {
				var q request
				if read(stream, &q, maxServerMessage) == nil && q.Op != opPart {
					answer(stream, q)
				}
			}()
		}
	})
	l.initTimeout = 200 * time.Millisecond
	s, err := l.Build(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return l, s
}

// TestLies: a message that our init does not send ends the connection.
func TestLies(t *testing.T) {
	begun := response{Begun: &held}
	ok := backends.Result{Ended: backends.EndedOK}
	result := func(change func(*backends.Result)) []any {
		r := ok
		change(&r)
		return []any{begun, response{Result: &r}}
	}
	for _, c := range []struct {
		name  string
		words []any
	}{
		{"nothing", nil},
		{"a result before it began", []any{response{Result: &ok}}},
		{"begun twice", []any{begun, begun, response{Result: &ok}}},
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
		{"a result, and output that does not end", []any{begun, response{Result: &ok}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := answering(t, backends.Spec{}, func(stream *yamux.Stream, q request) {
				for _, w := range c.words {
					if b, ok := w.([]byte); ok {
						stream.Write(b)
					} else {
						write(stream, w, maxInitMessage)
					}
				}
				stream.Close()
			})
			r, err := s.Exec(t.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{Stdout: io.Discard})
			if !errors.Is(err, ErrLost) || r.Ended != "" {
				t.Errorf("got %+v, %v", r, err)
			}
			<-l.Done()
		})
	}
}

// TestBelieved: what may be shown is made harmless.
func TestBelieved(t *testing.T) {
	c := backends.Containment{Backend: "b\x1b[2J", Layers: []backends.Layer{{Name: backends.LayerPID, Detail: strings.Repeat("x", 1<<20/2)}}}
	_, s := answering(t, backends.Spec{}, func(stream *yamux.Stream, q request) {
		write(stream, response{Begun: &c}, maxInitMessage)
		write(stream, response{Result: &backends.Result{Ended: backends.EndedOK, Wall: 100 * time.Hour, Contained: backends.Containment{Profile: "other"}}}, maxInitMessage)
	})
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Wall > time.Minute || r.Contained.Profile != "" || strings.Contains(r.Contained.Backend, "\x1b") || len(r.Contained.Layers[0].Detail) > engine.Longest {
		t.Errorf("got %v, %.100q, %d bytes", r.Wall, r.Contained.Backend, len(r.Contained.Layers[0].Detail))
	}
}

func TestLiesAboutFiles(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "a/", ".", "x\x00", strings.Repeat("n", 1<<17)} {
		_, s := answering(t, backends.Spec{}, func(stream *yamux.Stream, q request) {
			write(stream, response{File: &fileEntry{Name: []byte(name)}}, maxInitMessage)
		})
		if _, err := s.Files().Each(t.Context(), func(backends.File) error { t.Errorf("%.20q was shown", name); return nil }); !errors.Is(err, ErrLost) {
			t.Errorf("%.20q: got %v", name, err)
		}
	}
	// A walk without end ends when nobody wants it any more.
	_, s := answering(t, backends.Spec{}, func(stream *yamux.Stream, q request) {
		for write(stream, response{File: &fileEntry{Name: []byte("x")}}, maxInitMessage) == nil {
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Files().Each(ctx, func(backends.File) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

var anywhere = netip.MustParseAddrPort("127.0.0.1:1")

// frame is one of yamux.
func frame(kind byte, flags uint16, id, length uint32) []byte {
	b := append([]byte{0, kind}, binary.BigEndian.AppendUint16(nil, flags)...)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, id), length)
}

// TestFloods: frames that would fill the server's memory end the connection.
func TestFloods(t *testing.T) {
	for _, c := range []struct {
		name, why string
		next      func(i int) []byte
	}{
		{"pings", "it pings all the time", func(i int) []byte { return frame(typePing, flagSYN, 0, uint32(i)) }},
		{"streams in the server's name", "in the server's name", func(i int) []byte { return frame(1, flagSYN, uint32(2*i+1), 0) }},
		{"streams", "too many connections", func(i int) []byte { return frame(1, flagSYN, uint32(2*i+2), 0) }},
		{"more than a window", "recv window exceeded", func(i int) []byte {
			var content bytes.Buffer
			write(&content, arrival{Local: anywhere, Remote: anywhere}, maxInitMessage)
			content.Write(make([]byte, 1<<16-content.Len()))
			return append(frame(typeData, flagSYN*uint16(1-min(i, 1)), 2, 1<<16), content.Bytes()...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			l, done := puppet(t, func(conn io.ReadWriteCloser) {
				read(conn, &build{}, maxServerMessage)
				write(conn, built{Listeners: 1}, maxInitMessage)
				go io.Copy(io.Discard, conn)
				for i := range 1 << 20 {
					if _, err := conn.Write(c.next(i)); err != nil {
						return
					}
				}
				t.Error("all of it was taken")
			})
			if _, err := l.Build(t.Context(), backends.Spec{Listen: []int{1}}); err != nil {
				t.Fatal(err)
			}
			<-l.Done()
			<-done
			if err := l.lostError(nil); !strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v, want %s", err, c.why)
			}
			l.Close()
			settled(t, before)
		})
	}
}

// TestUnasked: connections that no program can have made end the connection.
func TestUnasked(t *testing.T) {
	for _, a := range []arrival{{Socket: -1, Local: anywhere, Remote: anywhere}, {Socket: 1, Local: anywhere, Remote: anywhere}, {Socket: 0}} {
		l, _ := puppet(t, func(conn io.ReadWriteCloser) {
			read(conn, &build{}, maxServerMessage)
			write(conn, built{Listeners: 1}, maxInitMessage)
			session, err := newInitSession(conn, true)
			if err != nil {
				return
			}
			if stream, err := session.OpenStream(); err == nil {
				write(stream, a, maxInitMessage)
			}
			<-session.CloseChan()
		})
		if _, err := l.Build(t.Context(), backends.Spec{Listen: []int{1}}); err != nil {
			t.Fatal(err)
		}
		<-l.Done()
		l.Close()
	}
}

// scripted is a connection whose content is there already.
type scripted struct{ io.Reader }

func (scripted) Write(p []byte) (int, error) { return len(p), nil }
func (scripted) Close() error                { return nil }

// FuzzConn reads any bytes as what an init says from the beginning.
func FuzzConn(f *testing.F) {
	var hello bytes.Buffer
	write(&hello, greeting{Version: version}, maxInitMessage)
	f.Add(hello.Bytes())
	write(&hello, built{Listeners: 1}, maxInitMessage)
	f.Add(append(bytes.Clone(hello.Bytes()), frame(1, flagSYN, 2, 0)...))
	f.Add(append(bytes.Clone(hello.Bytes()), append(frame(typeData, 2, 1, 4), 0, 0, 0, 1)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Handshake(t.Context(), scripted{bytes.NewReader(data)})
		if err != nil {
			return
		}
		defer l.Close()
		l.initTimeout = time.Millisecond
		s, err := l.Build(t.Context(), backends.Spec{Listen: []int{1}})
		if err != nil {
			return
		}
		defer s.Close()
		s.Exec(t.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{Stdout: io.Discard})
		s.Files().Each(t.Context(), func(backends.File) error { return nil })
	})
}

// FuzzAnswer has any bytes be the answer to all that is asked.
func FuzzAnswer(f *testing.F) {
	for _, m := range []response{{Begun: &held}, {Result: &backends.Result{Ended: "ok"}}, {File: &fileEntry{Name: []byte("x")}}, {Done: true}, {Failure: &failure{Text: "x"}}} {
		var b bytes.Buffer
		write(&b, m, maxInitMessage)
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
			l, s := answering(t, backends.Spec{}, func(stream *yamux.Stream, q request) {
				stream.Write(data)
				stream.Close()
			})
			ask(s)
			l.Close()
		}
	})
}

// FuzzChunks reads any bytes as a file's content, and as packets.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02hi\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x0a\x06\x7f\x00\x00\x01\x00\x35xyz"))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := io.Copy(io.Discard, onlyReader{&chunkReader{from: bytes.NewReader(data)}}); n > int64(len(data)) {
			t.Errorf("%d bytes of %d, %v", n, len(data), err)
		}
		for p := newPacketReader(bytes.NewReader(data)); ; {
			if _, _, err := p.next(); err != nil && !errors.Is(err, errPacket) {
				return
			}
		}
	})
}
