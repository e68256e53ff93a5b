package egress

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestSniff(t *testing.T) {
	const any, web = 7777, 80
	long := strings.Repeat("a", maxFirstLine)
	tests := []struct {
		name  string
		bytes string
		port  int
		want  protocol
	}{
		{"nothing yet", "", any, protoUndecided},
		{"request", "GET / HTTP/1.1\r\n", any, protoHTTP},
		{"request on 80", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", web, protoHTTP},
		{"a letter", "G", any, protoUndecided},
		{"a method", "GET", any, protoUndecided},
		{"a method and a blank", "GET ", any, protoUndecided},
		{"half a line", "GET /x HT", any, protoUndecided},
		{"half a version", "GET /x HTTP", any, protoUndecided},
		{"half a version and a line end", "GET /x HTTP\n", any, protoRefused},
		{"version 1.0", "HEAD / HTTP/1.0\n", any, protoHTTP},
		{"version 9.9", "GET / HTTP/9.9\r\n", any, protoHTTP},
		{"lower case", "get / http/1.1\r\n", any, protoHTTP},
		{"mixed case", "gEt / hTtP/1.1\r\n", any, protoHTTP},
		{"made-up method", "JEFF / HTTP/1.1\r\n", any, protoHTTP},
		{"odd method", "!#$%&'*+-.^_`|~0 / HTTP/1.1\r\n", any, protoHTTP},
		{"odd method comes slowly", "!#$%&'*+-.^_`|~0", any, protoUndecided},
		{"long method", strings.Repeat("A", 5000), any, protoUndecided},
		{"longer than any line", "GET /" + long, any, protoHTTP},
		{"a method longer than any line", long, any, protoHTTP},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", any, protoHTTP},
		{"CONNECT", "CONNECT evil.test:443 HTTP/1.1\r\n", any, protoHTTP},
		{"absolute", "GET http://evil.test/ HTTP/1.1\r\n", any, protoHTTP},
		{"blank lines before", "\r\n\r\n\n\nGET / HTTP/1.1\r\n", any, protoHTTP},
		{"only blank lines yet", "\r\n\r\n", any, protoUndecided},
		{"blanks before", " \t\v\fGET / HTTP/1.1\r\n", any, protoHTTP},
		{"endless blank lines", strings.Repeat("\r\n", maxFirstLine), any, protoRefused},
		{"endless blank lines on 80", strings.Repeat("\r\n", maxFirstLine), web, protoRefused},
		{"tabs between", "GET\t/\tHTTP/1.1\r\n", any, protoHTTP},
		{"tab, slowly", "GET\t", any, protoUndecided},
		{"white space of Latin-1, slowly", "FOO\xa0/\xa0", any, protoUndecided},
		{"white space of Latin-1", "FOO\x1c/\x1cHTTP/1.1\r\n", any, protoHTTP},
		{"several blanks", "GET    /     HTTP/1.1   \r\n", any, protoHTTP},
		{"blanks in the target", "GET /a b c HTTP/1.1\r\n", any, protoHTTP},
		{"bare CR", "GET / HTTP/1.1\rHost: evil.test\r\r", any, protoHTTP},
		{"bare CR, slowly", "GET /\r", any, protoUndecided},
		{"no target", "GET HTTP/1.1\r\n", any, protoHTTP},
		{"no blank", "GET/HTTP/1.1\r\n", any, protoHTTP},
		{"no blank, slowly", "GET/", any, protoUndecided},
		{"NUL in the target", "GET /\x00", any, protoUndecided},
		{"NUL in the target, whole", "GET /\x00 HTTP/1.1\r\n", any, protoHTTP},
		{"high bytes in the target", "FOO /\xff\xfe", any, protoUndecided},
		{"HTTP behind junk", "\x01\x02 HTTP/1.1\r\n", any, protoHTTP},
		{"HTTP/0.9", "GET /\r\n", any, protoRefused},
		{"HTTP/0.9, lower case", "get /\n", any, protoRefused},
		{"HTTP/0.9, absolute", "GET http://evil.test/\r\n", any, protoRefused},
		{"HTTP/0.9, another scheme", "GET gopher://evil.test/\r\n", any, protoRefused},
		{"HTTP/0.9 and junk", "GET / RTSP/1.0\r\n", any, protoRefused},
		{"HTTP/0.9 of any method", "FOO /bar\r\n", any, protoRefused},
		{"PROXY", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n", any, protoRefused},
		{"PROXY v2", "\r\n\r\n\x00\r\nQUIT\n", any, protoRefused},
		{"other text on 80", "HELO a.test\r\n", web, protoRefused},
		{"a word on 80", "QUIT\r\n", web, protoRefused},
		{"binary on 80", "\x01", web, protoRefused},
		{"binary on 443", "\x38\x01", 443, protoRefused},
		{"brace on 8080", "{", 8080, protoRefused},
		{"method with a bad byte on 80", "G\x01T / HTT", web, protoRefused},

		{"ssh", "SSH-2.0-OpenSSH_9.9p1 Debian-3\r\n", 22, protoOther},
		{"ssh on 443", "SSH-2.0-OpenSSH_9.9p1 Debian-3\r\n", 443, protoOther},
		{"ssh that is HTTP", "SSH-2.0-x / HTTP/1.1\r\n", 443, protoHTTP},
		{"ssh that is old HTTP", "SSH-2.0-x /\r\n", 443, protoRefused},
		{"half of ssh", "SSH-2.0", 443, protoUndecided},
		{"smtp", "EHLO a.test\r\n", 25, protoOther},
		{"ftp", "USER anonymous\r\n", 21, protoOther},
		{"imap", "a1 LOGIN a b\r\n", 143, protoOther},
		{"redis", "*1\r\n$4\r\nPING\r\n", 6379, protoOther},
		{"redis, inline", "SET a b\r\n", 6379, protoOther},
		{"redis, one word", "PING\r\n", 6379, protoOther},
		{"memcached", "get key\r\n", 11211, protoOther},
		{"nats", "CONNECT {\"verbose\":false}\r\n", 4222, protoOther},
		{"stomp", "CONNECT\naccept-version:1.2\n\n\x00", 61613, protoOther},
		{"irc", "NICK me\r\nUSER me 0 * :me\r\n", 6667, protoOther},
		{"xmpp waits without a line end", "<?xml version='1.0'?><stream:stream to='a.test'>", 5222, protoOther},
		{"git waits without a line end", "0033git-upload-pack /project.git\x00host=a.test\x00", 9418, protoOther},
		{"rtsp", "OPTIONS rtsp://a.test/ RTSP/1.0\r\n", 554, protoOther},
		{"whois", "example.com\r\n", 43, protoOther},
		{"gopher", "/path\r\n", 70, protoOther},
		{"rsync", "@RSYNCD: 31.0\n", 873, protoOther},
		{"json", "{\"id\":1}", any, protoOther},
		{"mongodb", "\x3a\x00\x00\x00\x01\x00\x00\x00", 27017, protoOther},
		{"mongodb, printable length", "AB\x00\x00", 27017, protoOther},
		{"amqp", "AMQP\x00\x00\x09\x01", 5672, protoOther},
		{"mqtt", "\x10\x0e\x00\x04MQTT", 1883, protoOther},
		{"telnet", "\xff\xfb\x01", 23, protoOther},
		{"postgres in the clear", "\x00\x00\x00\x08\x00\x03\x00\x00", 5432, protoOther},
		{"postgres, begun", "\x00\x00\x00\x08\x04", 5432, protoUndecided},
		{"postgres, SSLRequest", "\x00\x00\x00\x08\x04\xd2\x16\x2f", 5432, protoPostgres},
		{"postgres, GSSENCRequest", "\x00\x00\x00\x08\x04\xd2\x16\x30", 5432, protoPostgres},

		{"tls, a byte", "\x16", 443, protoUndecided},
		{"tls, half a record", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", any, protoUndecided},
		{"tls, an alert's byte", "\x15", any, protoUndecided},
		{"tls, a warning", "\x15\x03", any, protoTLS},
		{"tls, ChangeCipherSpec", "\x14\x03\x03\x00\x01\x01", any, protoTLS},
		{"tls, early data", "\x17\x03\x03\x00\x09\x99", any, protoTLS},
		{"tls of no version", "\x16\x05\x01\x02\x00\x01", any, protoTLS},
		{"tls of no version, slowly", "\x16\x05\x01\x02\x00", any, protoUndecided},
		{"tls of no version, another message", "\x16\x05\x01\x02\x00\x02", any, protoOther},
		{"tls of version 0", "\x16\x00\x00\x02\x00\x01", any, protoTLS},
		{"tls of version 15", "\x16\x0f\xff\x02\x00\x01", any, protoTLS},
		{"no tls: version 16", "\x16\x10", any, protoOther},
		{"a warning of no version", "\x15\x02\x01\x00\x02\x01\x5a", any, protoTLS},
		{"an alert of no version that ends it", "\x15\x02\x01\x00\x02\x02\x28", any, protoOther},
		{"ChangeCipherSpec of no version", "\x14\x01\x01\x00\x01\x01", any, protoTLS},
		{"an empty record of no version", "\x15\x02\x01\x00\x00\x16", any, protoTLS},
		{"mongodb with the length of a ChangeCipherSpec's type", "\x14\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xd4\x07\x00\x00", 27017,
			protoOther},
		{"mongodb with that of an alert's", "\x15\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00", 27017, protoOther},
		{"mongodb with that of a hello's", "\x16\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xd4\x07\x00\x00", 27017, protoOther},
		{"a length in one byte", "\x16\x00\xf6\x05\x0e" + "mine.a.test", 25565, protoOther},
		{"tls, a record of another type", "\x16\x03\x01\x00\x02\x02\x00", any, protoTLS},
		{"tls, malformed", "\x16\x03\x01\xff\xff", any, protoTLS},
		{"SSLv2", "\x80\x2e\x01\x00\x02", any, protoRefused},
		{"SSLv2, hello of SSLv3", "\x80\x2e\x01\x03\x01", any, protoRefused},
		{"SSLv2, slowly", "\x80\x2e\x01", any, protoUndecided},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, why := sniff([]byte(tt.bytes), tt.port, false)
			if got != tt.want || (got == protoRefused) != (why != "") {
				t.Errorf("got %d %q, want %d", got, why, tt.want)
			}
			if got, _ := sniff([]byte(tt.bytes), tt.port, true); got == protoUndecided {
				t.Error("nothing more comes, and it waits")
			}
		})
	}
}

// TestSniffPieces sends refused protocols in pieces, cut at every place: no beginning of them passes.
func TestSniffPieces(t *testing.T) {
	evil := unencryptedHello(t, "evil.test")
	for _, port := range []int{7777, 80, 443} {
		for _, shape := range append(foreign(), oddHellos(evil)...) {
			for n := 0; n < len(shape); n += 1 + n/100 {
				s, _ := sniff([]byte(shape[:n]), port, false)
				if s == protoOther {
					t.Errorf("%d: of %.60q %d bytes pass", port, shape, n)
				}
				if s != protoUndecided {
					break
				}
			}
		}
	}
}

// FuzzSniff checks the properties that attackers would break: a request line is never passed as another protocol,
// however it is cut into pieces, and a decided protocol does not wait.
func FuzzSniff(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", "\r\n\tget /x http/1.0\n", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
		"\x15\x02\x01\x00\x02\x01\x5a", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "SET a b\r\n"} {
		f.Add([]byte(s), uint16(80))
		f.Add([]byte(s), uint16(7777))
	}
	f.Fuzz(func(t *testing.T, b []byte, port uint16) {
		first := protoUndecided
		at := 0
		for ; at <= len(b) && first == protoUndecided; at++ {
			first, _ = sniff(b[:at], int(port), false)
		}
		if first == protoUndecided {
			if len(b) > maxHello+maxFirstLine {
				t.Error("it waits without end")
			}
			return
		}
		if first == protoOther && slices.Contains(webLikePorts[:], int(port)) && !bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n\v\f"),
			[]byte("SSH-")) {
			t.Errorf("passed on %d", port)
		}
		if first == protoOther && strictRequest(b) {
			t.Errorf("a request passed when %d bytes were there", at-1)
		}
	})
}

// strictRequest reports whether b begins with a request line according to RFC 9112, or nearly.
func strictRequest(b []byte) bool {
	line, _, ok := bytes.Cut(bytes.TrimLeft(b, "\r\n"), []byte("\n"))
	words := bytes.Split(bytes.TrimSuffix(line, []byte("\r")), []byte(" "))
	return ok && bytes.IndexByte(line, 0) < 0 && len(words) == 3 && len(words[0]) > 0 && len(bytes.Trim(words[0], tokenBytes)) == 0 &&
		bytes.HasPrefix(words[2], []byte("HTTP/"))
}

func TestIsServerHTTP(t *testing.T) {
	for first, want := range map[string]bool{
		"HTTP/1.1 408 Request Timeout\r\n": true,
		"HT":                               true,
		"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03": true,
		"\x00":                   true,
		"220 mail ESMTP\r\n":     false,
		"SSH-2.0-x\r\n":          false,
		"J\x00\x00\x00\x0a8.4.0": false,
		"\x00\x00\x12\x00":       false,
		"HELLO":                  false,
		"\x01":                   false,
	} {
		if got := isServerHTTP([]byte(first)); got != want {
			t.Errorf("%q: got %v, want %v", first, got, want)
		}
	}
}
