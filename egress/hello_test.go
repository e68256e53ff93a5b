package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
)

// certificate returns a certificate that is valid for any name to clients that do not verify.
func certificate(t testing.TB) tls.Certificate {
	return tlstest.New(t, "any").Sign(x509.Certificate{DNSNames: []string{"a.test"}})
}

// tlsServer echoes, and sends the requested names to the channel.
func (w *world) tlsServer(name string, c *tls.Config) <-chan string {
	names := make(chan string, 100)
	if c == nil {
		c = &tls.Config{}
	}
	cert := certificate(w.t)
	c.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		names <- h.ServerName
		return &cert, nil
	}
	w.server(name, func(conn *net.TCPConn) {
		s := tls.Server(conn, c)
		_, _ = io.Copy(s, s)
		_ = s.Close()
	})
	return names
}

// hello returns the ClientHello that a client with this configuration sends.
func hello(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = tls.Client(theirs, c).HandshakeContext(ctx) }()
	var b []byte
	chunk := make([]byte, 4096)
	for {
		n, err := ours.Read(chunk)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, chunk[:n]...)
		if end, err := helloLength(b); err != nil {
			t.Fatal(err)
		} else if end > 0 {
			cancel()
			ours.Close()
			<-done
			return b[:end]
		}
	}
}

func unencryptedHello(t testing.TB, name string) []byte {
	return hello(t, &tls.Config{ServerName: name, InsecureSkipVerify: true})
}

// inRecords splits one record's message into records of at most n bytes.
func inRecords(b []byte, n int) []byte {
	var out []byte
	for m := b[recordHeader:]; len(m) > 0; {
		part := m[:min(n, len(m))]
		out = append(out, b[0], b[1], b[2])
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = append(out, part...)
		m = m[len(part):]
	}
	return out
}

// extend adds an extension to a ClientHello in one record.
func extend(b []byte, kind uint16, data []byte) []byte {
	m := bytes.Clone(b[recordHeader:])
	at := 4 + 2 + 32
	at += 1 + int(m[at])
	at += 2 + int(binary.BigEndian.Uint16(m[at:]))
	at += 1 + int(m[at])
	size := binary.BigEndian.Uint16(m[at:])
	binary.BigEndian.PutUint16(m[at:], size+4+uint16(len(data)))
	m = binary.BigEndian.AppendUint16(m, kind)
	m = binary.BigEndian.AppendUint16(m, uint16(len(data)))
	m = append(m, data...)
	length := len(m) - 4
	m[1], m[2], m[3] = byte(length>>16), byte(length>>8), byte(length)
	out := append(bytes.Clone(b[:3]), byte(len(m)>>8), byte(len(m)))
	return append(out, m...)
}

// nameList is the data of an SNI extension.
func nameList(names ...string) []byte {
	var list []byte
	for _, name := range names {
		list = append(list, 0)
		list = binary.BigEndian.AppendUint16(list, uint16(len(name)))
		list = append(list, name...)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...)
}

func TestCheckHello(t *testing.T) {
	good, bare := unencryptedHello(t, "a.test"), hello(t, &tls.Config{InsecureSkipVerify: true})
	long := extend(good, 0x7777, make([]byte, 14_000))
	tests := []struct {
		name   string
		hello  []byte
		reason string // "" if it passes
	}{
		{"right", good, ""},
		{"case", unencryptedHello(t, "A.tESt"), ""},
		{"in small records", inRecords(good, 5), ""},
		{"long", long, ""},
		{"unknown extension", extend(good, 0x7777, []byte("x")), ""},
		{"another name", unencryptedHello(t, "evil.test"), `asks for "evil.test" (SNI)`},
		{"another name of its length", unencryptedHello(t, "b.test"), `asks for "b.test" (SNI)`},
		{"below", unencryptedHello(t, "b.a.test"), "SNI"},
		{"above", unencryptedHello(t, "test"), "SNI"},
		{"prefix", unencryptedHello(t, "a.test.evil.test"), "SNI"},
		{"none", bare, "does not say which name"},
		{"other letters", extend(bare, 0, nameList("a.te\u017ft")), "SNI"},
		{"NUL", extend(bare, 0, nameList("a.test\x00.evil.test")), "SNI"},
		{"NUL at the end", extend(bare, 0, nameList("a.test\x00")), "SNI"},
		{"final dot", extend(bare, 0, nameList("a.test.")), "malformed"},
		{"two names", extend(bare, 0, nameList("a.test", "evil.test")), "malformed"},
		{"no name in the list", extend(bare, 0, nameList()), "malformed"},
		{"empty name", extend(bare, 0, nameList("")), "malformed"},
		{"twice", extend(good, 0, nameList("evil.test")), "malformed"},
		{"ECH", extend(good, 0xfe0d, []byte("\x00\x00\x01\x00\x01\x07\x00\x01x\x00\x01y")), "ECH"},
		{"ECH, inner", extend(good, 0xfe0d, []byte{1}), "ECH"},
		{"ECH, junk", extend(good, 0xfe0d, []byte("junk")), ""},
		{"ECH, a draft", extend(good, 0xfe08, nil), "ECH"},
		{"ESNI", extend(good, 0xffce, []byte("x")), "ECH"},
		{"trailing in the record", func() []byte {
			b := append(bytes.Clone(good), "GET"...)
			binary.BigEndian.PutUint16(b[3:], uint16(len(b)-recordHeader))
			return b
		}(), "last record"},
		{"another record between", append(inRecords(good, 100)[:105], "\x15\x03\x01\x00\x02\x01\x00"...), "before its end"},
		{"empty record between", append(inRecords(good, 100)[:105], "\x16\x03\x01\x00\x00"...), "records are malformed"},
		{"too many records", inRecords(long, 1), "too long"},
		{"endless", []byte("\x16\x03\x01\x00\x04\x01\xff\xff\xff"), "too long"},
		{"another message", []byte("\x16\x03\x01\x00\x04\x02\x00\x00\x00"), "another message"},
		{"empty hello", []byte("\x16\x03\x01\x00\x04\x01\x00\x00\x00"), "malformed"},
		{"cut", good[:len(good)-1], "malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			no := checkHello(tt.hello, "a.test", false, false)
			if tt.name == "ECH, junk" { // understood or not, it does not pass
				if no == nil {
					t.Error("it passes")
				}
				return
			}
			switch {
			case no == nil && tt.reason != "":
				t.Errorf("it passes, want %q", tt.reason)
			case no != nil && (tt.reason == "" || !strings.Contains(no.reason, tt.reason)):
				t.Errorf("got %q, want %q", no.reason, tt.reason)
			case no != nil:
				showDecision(t, Decision{Name: "a.test", Reason: no.reason})
			}
			if s, _ := sniff(tt.hello, 443, false); s != protoTLS && tt.name != "cut" {
				t.Errorf("looks like %d", s)
			}
		})
	}
	if no := checkHello(bare, "a.test", true, false); no != nil {
		t.Errorf("for PostgreSQL: %v", no)
	}
	for name, refused := range map[string]bool{"a.test": false, "evil.test": true} { // of TLS that ends here, the outer name counts
		hello := extend(unencryptedHello(t, name), 0xfe0d, []byte("\x00\x00\x01\x00\x01\x07\x00\x01x\x00\x01y"))
		if no := checkHello(hello, "a.test", false, true); (no != nil) != refused {
			t.Errorf("an encrypted hello for %s of TLS that ends here: %v", name, no)
		}
	}
	if no := checkHello(unencryptedHello(t, "evil.test"), "a.test", true, false); no == nil {
		t.Error("for PostgreSQL, another name passes")
	}
}

func FuzzCheckHello(f *testing.F) {
	good := unencryptedHello(f, "a.test")
	for _, b := range [][]byte{good, inRecords(good, 7), unencryptedHello(f, "evil.test"), extend(good, 0xfe0d, []byte{1}),
		extend(good, 0, nameList("b.test"))} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		end, err := helloLength(b)
		if end < 0 || end > len(b) || end > 0 && err != nil {
			t.Fatal(end, err)
		}
		for cut := range min(end, 200) {
			if n, err := helloLength(b[:cut]); n != 0 || err != nil {
				t.Fatalf("%d bytes: %d, %v", cut, n, err)
			}
		}
		if no := checkHello(b, "a.test", false, false); no != nil {
			showDecision(t, Decision{Name: "a.test", Reason: no.reason})
			return
		}
		if end == 0 || !bytes.Contains(bytes.ToLower(joined(b[:end])), []byte("a.test")) {
			t.Error("a hello without the name passes")
		}
	})
}

// joined returns the joined contents of records.
func joined(b []byte) (m []byte) {
	for len(b) > 0 {
		n := recordHeader + int(binary.BigEndian.Uint16(b[3:]))
		m, b = append(m, b[recordHeader:n]...), b[n:]
	}
	return m
}

func TestAsksAgain(t *testing.T) {
	hello := func(random string) string {
		return "\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + random + strings.Repeat("x", 84)
	}
	for record, want := range map[string]bool{
		hello(string(retryRandom[:])):                              true,
		hello(strings.Repeat("r", 32)):                             false,
		"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03":             true, // it may become one
		"\x16\x03\x03\x00\x00":                                     true,
		"\x16\x03\x03\x00\x7a\x01" + hello(string(retryRandom[:])): false,
	} {
		if got := asksAgain([]byte(record)); got != want {
			t.Errorf("%q: got %v", record, got)
		}
	}
}

func TestTLS(t *testing.T) {
	for name, c := range map[string]*tls.Config{
		"1.3":              {},
		"1.2":              {MaxVersion: tls.VersionTLS12},
		"1.3, asked again": {CurvePreferences: []tls.CurveID{tls.CurveP384}},
	} {
		for _, port := range []int{443, 0} {
			w := in(t, port, Config{})
			names := w.tlsServer("a.test", c)
			client := tls.Client(w.connect("a.test"), &tls.Config{ServerName: "A.test", InsecureSkipVerify: true})
			message := bytes.Repeat([]byte("hello, world "), 50_000)
			go func() { _, _ = client.Write(message); _ = client.CloseWrite() }()
			got, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(got, message) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
			if asked := <-names; asked != "A.test" {
				t.Errorf("%s: the server was asked for %q", name, asked)
			}
			if again := client.ConnectionState().HelloRetryRequest; again != (name == "1.3, asked again") {
				t.Errorf("%s: asked again: %v", name, again)
			}
		}
	}
}

// TestHelloSlowly sends a good hello in pieces of every kind.
func TestHelloSlowly(t *testing.T) {
	w := in(t, 443, Config{})
	var got sink
	w.server("a.test", got.serve)
	good := unencryptedHello(t, "a.test")
	for _, b := range [][]byte{good, inRecords(good, 3), inRecords(good, 100)} {
		conn := w.connect("a.test")
		_ = conn.SetNoDelay(true)
		for i := range b {
			if _, err := conn.Write(b[i : i+1]); err != nil {
				t.Fatal(err)
			}
		}
		hosttest.Until(t, "the server has the hello", func() bool { return strings.HasSuffix(got.String(), string(b)) })
	}
}

// TestTLSRefused checks that refused clients fail at once, with an alert, and that no byte of theirs leaves.
func TestTLSRefused(t *testing.T) {
	var got sink
	w := in(t, 443, Config{})
	w.server("a.test", got.serve)
	good := unencryptedHello(t, "a.test")
	tests := []struct {
		name   string
		bytes  []byte
		alert  byte
		reason string
	}{
		{"another name", unencryptedHello(t, "evil.test"), alertUnrecognizedName, "asks for"},
		{"another name, in pieces", inRecords(unencryptedHello(t, "evil.test"), 4), alertUnrecognizedName, "asks for"},
		{"no name", hello(t, &tls.Config{InsecureSkipVerify: true}), alertUnrecognizedName, "does not say"},
		{"ECH", extend(good, 0xfe0d, []byte{1}), alertAccessDenied, "ECH"},
		{"malformed", append(good[:20:20], 0xff), alertDecodeError, "not understood"},
		{"garbage behind it", append(unencryptedHello(t, "evil.test"), make([]byte, 5000)...), alertUnrecognizedName, "asks for"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := w.connect("a.test")
			_, _ = conn.Write(tt.bytes)
			if tt.name == "malformed" {
				_ = conn.CloseWrite()
			}
			response, err := io.ReadAll(conn)
			if want := []byte{recordAlert, 3, 3, 0, 2, 2, tt.alert}; err != nil || !bytes.Equal(response, want) {
				t.Errorf("got %x and %v, want %x", response, err, want)
			}
			conn.Close()
			w.refused(tt.reason)
		})
	}
	if s := got.String(); s != "" {
		t.Errorf("the server got %q", s)
	}
	client := tls.Client(w.connect("a.test"), &tls.Config{ServerName: "evil.test"})
	var alert tls.AlertError
	if err := client.Handshake(); !errors.As(err, &alert) && !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("a real client says %v", err)
	}
}

// TestOddTLS sends TLS on a port that permits other protocols, with an oddity by which a strict reader would not
// recognise it. crypto/tls shows that some servers would accept it.
func TestOddTLS(t *testing.T) {
	for i, shape := range oddHellos(unencryptedHello(t, "evil.test")) {
		reason := "malformed"
		if i >= 5 {
			reason = "before its end"
		}
		t.Run(fmt.Sprintf("%.12q", shape), func(t *testing.T) {
			w := in(t, 0, Config{})
			names := w.tlsServer("a.test", nil)
			direct, err := net.Dial("tcp4", w.servers["a.test"])
			if err != nil {
				t.Fatal(err)
			}
			defer direct.Close()
			_, _ = io.WriteString(direct, shape)
			if name := <-names; name != "evil.test" {
				t.Fatalf("a server on its own is asked for %q", name)
			}
			conn := w.connect("a.test")
			_, _ = io.WriteString(conn, shape)
			response, err := io.ReadAll(conn)
			if want := []byte{recordAlert, 3, 3, 0, 2, 2, alertDecodeError}; err != nil || !bytes.Equal(response, want) {
				t.Errorf("got %x and %v, want %x", response, err, want)
			}
			conn.Close()
			w.refused(reason)
			select {
			case name := <-names:
				t.Errorf("the server is asked for %q", name)
			default:
			}
		})
	}
}

// oddHellos are records of a version that TLS never had, and warnings before the hello.
func oddHellos(hello []byte) []string {
	version := func(v string) []byte { b := bytes.Clone(hello); copy(b[1:], v); return b }
	const warning = "\x15\x03\x03\x00\x02\x01\x5a"
	return []string{
		string(version("\x02\x01")), string(version("\x05\x01")), string(version("\x00\x00")), string(version("\x0f\xff")),
		string(inRecords(version("\x02\x01"), 1)),
		"\x15\x03\x01\x00\x02\x01\x5a" + string(hello), strings.Repeat(warning, 5) + string(hello),
		"\x15\x02\x01\x00\x02\x01\x5a" + string(hello), "\x15\x00\x00\x00\x02\x01\xff" + string(hello),
	}
}

// TestSecondHello has the server request another hello, and the client send one, after other records that servers
// skip. The server may get those bytes and no more.
func TestSecondHello(t *testing.T) {
	const (
		spec    = "\x14\x03\x03\x00\x01\x01"
		data    = "\x17\x03\x03\x00\x04data"
		warning = "\x15\x03\x03\x00\x02\x01\x5a"
		fatal   = "\x15\x03\x03\x00\x02\x02\x28"
	)
	first := string(unencryptedHello(t, "a.test"))
	good := string(inRecords(unencryptedHello(t, "a.test"), 60))
	evil := string(inRecords(unencryptedHello(t, "evil.test"), 60))
	alert := string([]byte{recordAlert, 3, 3, 0, 2, 2, alertUnrecognizedName})
	again := append([]byte{recordHandshake, 3, 3, 0, 60, serverHello, 0, 0, 56, 3, 3}, retryRandom[:]...)
	again = append(again, make([]byte, 60-6-32)...)
	tests := []struct {
		name        string
		early, late string // bytes of the client after its first hello: at once, and after a HelloRetryRequest
		got         string // bytes that the server receives
		clientGets  string // bytes that the client receives after the server's
	}{
		{"another name", "", evil, "", alert},
		{"after early data", spec + data, evil, spec + data, alert},
		{"after a warning", "", warning + evil, warning, alert},
		{"after an early warning", warning, evil, warning, alert},
		{"after a fatal alert", "", fatal + evil, fatal, alert},
		{"after all of them", data + warning, spec + warning + warning + data + evil, data + warning + spec + warning + warning + data, alert},
		{"the right name", "", spec + good + "rest", spec + good + "rest", "bye"},
		{"the right name after a warning", warning, good + "rest", warning + good + "rest", "bye"},
		{"nothing", "", "", "", "bye"},
		{"only an alert", "", fatal, fatal, "bye"},
		{"at once", evil, "", "", alert},
		{"after a warning, at once", warning + evil, "", warning, alert},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := in(t, 443, Config{})
			heard := make(chan string, 1)
			w.server("a.test", func(conn *net.TCPConn) {
				b := make([]byte, len(first))
				_, _ = io.ReadFull(conn, b)
				for i := range again { // slowly, too
					_, _ = conn.Write(again[i : i+1])
				}
				rest, err := io.ReadAll(conn)
				if tt.clientGets == "bye" && err != nil {
					t.Errorf("the server sees %v", err)
				}
				_, _ = io.WriteString(conn, "bye")
				heard <- string(b) + string(rest)
			})
			conn := w.connect("a.test")
			_, _ = io.WriteString(conn, first+tt.early)
			atOnce := strings.Contains(tt.early, evil)
			if !atOnce {
				asked := make([]byte, len(again))
				if _, err := io.ReadFull(conn, asked); err != nil || !bytes.Equal(asked, again) {
					t.Fatalf("got %x and %v", asked, err)
				}
				_, _ = io.WriteString(conn, tt.late)
			}
			if tt.clientGets == "bye" {
				_ = conn.CloseWrite()
			}
			response, err := io.ReadAll(conn)
			switch {
			case err != nil:
				t.Errorf("after %x: %v", response, err)
			case !atOnce && string(response) != tt.clientGets:
				t.Errorf("the client gets %q, want %q", response, tt.clientGets)
			case atOnce && !strings.Contains(string(response), tt.clientGets): // perhaps amid the server's answer, which is still on its way
				t.Errorf("the client gets %q, without %q", response, tt.clientGets)
			}
			conn.Close()
			if got := <-heard; got != first+tt.got {
				t.Errorf("the server got %q, want the first hello and %q", got, tt.got)
			}
			if tt.clientGets == alert {
				w.refused("evil.test")
			}
		})
	}
}

func TestPostgres(t *testing.T) {
	ssl, gss := string(postgresRequests[0]), string(postgresRequests[1])
	cert := certificate(t)
	serve := func(answers string) func(*net.TCPConn) {
		return func(conn *net.TCPConn) {
			for _, answer := range []byte(answers) {
				if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
					return
				}
				_, _ = conn.Write([]byte{answer})
				if answer == 'S' {
					s := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})
					_, _ = io.Copy(s, s)
					return
				}
			}
			echo(conn)
		}
	}
	for _, tt := range []struct {
		name, requests, answers, sni, reason string
	}{
		{"sni", ssl, "S", "a.test", ""},
		{"no sni", ssl, "S", "", ""},
		{"another sni", ssl, "S", "evil.test", "evil.test"},
		{"gss first", gss + ssl, "NS", "a.test", ""},
		{"gss first, another sni", gss + ssl, "NS", "evil.test", "evil.test"},
		{"no encryption", ssl, "N", "-", ""},
		{"gss", gss, "G", "-", ""},
		{"gss, then TLS", gss, "G", "a.test", "not PostgreSQL"},
		{"gss, then TLS for another name", gss, "G", "evil.test", "not PostgreSQL"},
		{"gss, then http", gss, "G", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "not PostgreSQL"},
		{"stuffed", ssl, "S", "\x00\x00\x00\x08\x00\x03\x00\x00", "not PostgreSQL"},
		{"http", ssl, "N", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "not PostgreSQL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := in(t, 0, Config{})
			w.server("a.test", serve(tt.answers))
			conn := w.connect("a.test")
			for i, answer := range []byte(tt.answers) {
				_, _ = io.WriteString(conn, tt.requests[8*i:8*i+8])
				var b [1]byte
				if _, err := io.ReadFull(conn, b[:]); err != nil || b[0] != answer {
					t.Fatalf("got %q and %v", b, err)
				}
			}
			switch {
			case tt.sni == "-":
				ping(t, conn)
				return
			case len(tt.sni) > 0 && strings.Contains(tt.sni, "\x00") || strings.Contains(tt.sni, "HTTP"):
				_, _ = io.WriteString(conn, tt.sni)
				mustReset(t, conn)
			default:
				client := tls.Client(conn, &tls.Config{ServerName: tt.sni, InsecureSkipVerify: true})
				_, err := client.Write([]byte("query"))
				if err == nil {
					_, err = io.ReadFull(client, make([]byte, 5))
				}
				if (err == nil) != (tt.reason == "") {
					t.Errorf("got %v", err)
				}
			}
			if tt.reason != "" {
				w.refused(tt.reason)
			}
		})
	}
}

// TestPostgresAnswers has servers send answers after which no TLS comes, and clients that continue with it, for
// another name, or with HTTP.
func TestPostgresAnswers(t *testing.T) {
	request, evil := string(postgresRequests[0]), string(unencryptedHello(t, "evil.test"))
	const failure = "ERROR: no more\n\x00"
	for _, tt := range []struct {
		name, answer       string
		clientGets, reason string
	}{
		{"an error", failure, failure, ""},
		{"HTTP's", "HTTP/1.1 400 Bad Request\r\n\r\n", "", "not PostgreSQL's"},
		{"another", "\x15\x03\x01\x00\x02\x02\x28", "", "not PostgreSQL's"},
		{"none", "", "", ""},
	} {
		for _, more := range []string{evil, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"} {
			for _, atOnce := range []bool{false, true} {
				t.Run(fmt.Sprint(tt.name, len(more), atOnce), func(t *testing.T) {
					w := in(t, 0, Config{})
					heard := make(chan string, 1)
					w.server("a.test", func(conn *net.TCPConn) {
						b := make([]byte, len(request))
						_, _ = io.ReadFull(conn, b)
						_, _ = io.WriteString(conn, tt.answer)
						_ = conn.CloseWrite() // it continues to listen
						rest, _ := io.ReadAll(conn)
						heard <- string(b) + string(rest)
					})
					conn := w.connect("a.test")
					if atOnce {
						_, _ = io.WriteString(conn, request+more)
					} else {
						_, _ = io.WriteString(conn, request)
					}
					response, _ := io.ReadAll(conn) // and perhaps a reset, for the excess bytes
					if !atOnce {
						_, _ = io.WriteString(conn, more)
					}
					if string(response) != tt.clientGets && !(atOnce && tt.clientGets != "" && strings.HasPrefix(tt.clientGets, string(response))) {
						t.Errorf("the client gets %q, want %q", response, tt.clientGets)
					}
					conn.Close()
					if got := <-heard; got != request {
						t.Errorf("the server got %q", got)
					}
					if tt.reason != "" {
						w.refused(tt.reason)
					}
				})
			}
		}
	}
}

// TestTLSGone has the client disconnect while the server does not answer its hello.
func TestTLSGone(t *testing.T) {
	w := in(t, 443, Config{})
	ended := make(chan error, 1)
	w.server("a.test", func(conn *net.TCPConn) {
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	})
	conn := w.connect("a.test")
	_, _ = conn.Write(unencryptedHello(t, "a.test"))
	blocked(t, "egress.watchHangUp.func1")
	_ = conn.Close()
	<-ended
}
