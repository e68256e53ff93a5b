package egress

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// protocol is the protocol of a client's first bytes.
type protocol int

const (
	protoUndecided protocol = iota // more bytes are needed
	protoOther                     // a protocol in which no other name can be requested, as far as known
	protoTLS                       // TLS: its ClientHello is complete, or can't be
	protoHTTP                      // HTTP, or text that an HTTP server may accept as a request
	protoPostgres                  // PostgreSQL's request for encryption
	protoRefused                   // to be refused
)

const (
	maxFirstLine = 16 << 10 // bytes of a first line; servers take 8 KiB or less by default
	maxHello     = 64 << 10 // bytes of a ClientHello with its records; crypto/tls takes no more either
)

// webLikePorts are the ports on which unknown protocols are refused: HTTP servers listen there, and are lenient in
// different ways.
var webLikePorts = [...]int{80, 443, 8000, 8008, 8080, 8443, 8888}

// sniff returns the protocol of a client's first bytes, and the reason of a refusal. ended says that the client sends
// no more.
//
// The attack is a request to another host than the allowed one, disguised as bytes of another protocol. So anything
// that a lenient HTTP server may accept as a request line is HTTP: with blank lines or blanks before it, with any token
// as method, with any white space, with unknown bytes, and of any length. The relay's server then parses it strictly.
// Known gaps, only on ports other than webLikePorts:
//   - a method with bytes that no method may have ("G\x01T / HTTP/1.1"): old Apache, before 2.4.25, took
//     such ones. Binary protocols can't wait for a line that never ends.
//   - a made-up method and a target with a NUL ("FOO /\x00 HTTP/1.1"), if the rest comes later.
//   - memcached's "get /key" is refused, since it is HTTP/0.9.
//   - records of types that no TLS has, before a hello ("\x63\x03\x01"): TLS 1.1 has them ignored, and the
//     OpenSSL of its time does that, where it may speak nothing newer.
//   - names inside of other protocols: FastCGI, AJP, SOCKS, Redis, and the bytes after a STARTTLS other than
//     PostgreSQL's.
func sniff(b []byte, port int, ended bool) (protocol, string) {
	if len(b) == 0 {
		if ended {
			return protoOther, ""
		}
		return protoUndecided, ""
	}
	switch s, why := sniffTLS(b); {
	case s == protoUndecided && ended && b[0] == recordHandshake:
		return protoTLS, "" // an incomplete hello, refused later
	case s == protoOther, s == protoUndecided && ended:
		return sniffText(b, port, ended)
	default:
		return s, why
	}
}

// sniffTLS detects the protocols that start with bytes other than text. It returns protoOther for the rest.
func sniffTLS(b []byte) (protocol, string) {
	switch {
	case b[0] >= recordSpec && b[0] <= recordData:
		return sniffRecord(b), ""
	case b[0] >= 0x80 && b[0] < 0x84: // the first byte of the length of an SSLv2 record, which is short
		switch {
		case len(b) < 5 && (len(b) < 3 || b[2] == 1):
			return protoUndecided, ""
		case len(b) >= 5 && b[2] == 1 && (b[3] == 3 || b[3] == 0 && b[4] == 2):
			return protoRefused, "a hello in the form of SSLv2 can't say which name it is for: use TLS 1.2 or newer"
		}
	case b[0] == 0:
		for _, request := range postgresRequests {
			if bytes.HasPrefix(b, request) {
				return protoPostgres, ""
			}
			if bytes.HasPrefix(request, b) {
				return protoUndecided, ""
			}
		}
	}
	return protoOther, ""
}

// sniffRecord checks bytes that start with the type of a TLS record. TLS is refused later unless it starts with a hello
// that helloLength accepts.
//
// Servers are lenient here, too: crypto/tls skips warnings before the hello, and reads a first record of any version
// below 16.0. But in other protocols a length comes first, as in MongoDB's, where "\x16\x01\x00\x00" begins a greeting
// of 278 bytes. So with a version that no TLS ever had, the first byte inside the record must be a 1, too: it is the
// whole of a ChangeCipherSpec, the level of an alert that is a warning, and the type of a ClientHello.
//
// Refused by mistake are first messages with a length of 788 to 791, if it is little-endian, or of 5123,
// 5379, 5635 or 5891, if it is big-endian and two bytes; those that have a 1 there; and, after
// sniffTimeout, those that are too short to tell.
func sniffRecord(b []byte) protocol {
	switch {
	case len(b) == 1:
		return protoUndecided
	case b[1] == 3 && b[0] == recordHandshake:
		if n, err := helloLength(b); n == 0 && err == nil {
			return protoUndecided
		}
		return protoTLS
	case b[1] == 3:
		return protoTLS
	case b[1] >= 0x10:
		return protoOther
	case len(b) <= recordHeader:
		return protoUndecided
	}
	inside, empty := b[recordHeader], b[3] == 0 && b[4] == 0
	if inside == 1 && !empty || empty && inside >= recordSpec && inside <= recordData {
		return protoTLS
	}
	return protoOther
}

// postgresRequests are SSLRequest and GSSENCRequest.
// https://www.postgresql.org/docs/current/protocol-message-formats.html
var postgresRequests = [...][]byte{
	binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 80877103),
	binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 80877104),
}

const (
	whyUnknown = "what was sent is neither TLS nor HTTP, and on this port nothing else is let through"
	whyOld     = "a request without an HTTP version (HTTP/0.9) can't say which name it is for: use HTTP/1.1"
	whyBlank   = "endless blank lines are not a protocol"
	whyProxy   = "a PROXY header claims to come from another address: connect without one"
)

// sniffText distinguishes HTTP from other text and binary protocols by the first line.
func sniffText(b []byte, port int, ended bool) (protocol, string) {
	other, why := protoOther, ""
	if slices.Contains(webLikePorts[:], port) {
		other, why = protoRefused, whyUnknown
	}
	text := bytes.TrimLeft(b, blanks) // servers skip empty lines; some skip blanks, too
	whole := ended || len(b) >= maxFirstLine
	switch {
	case len(text) == 0 && ended:
		return other, why
	case len(text) == 0 && whole:
		return protoRefused, whyBlank
	case len(text) == 0:
		return protoUndecided, ""
	}
	line, _, lineEnded := bytes.Cut(text, []byte("\n"))
	if bytes.Contains(bytes.ToUpper(line), []byte("HTTP/")) {
		return protoHTTP, ""
	}
	n := len(line) - len(bytes.TrimLeft(line, tokenBytes))
	method, rest := string(line[:n]), line[n:]
	known := slices.Contains(methods[:], strings.ToUpper(method))
	switch {
	case n == 0 && len(text) < len(b) && (text[0] < ' ' || text[0] > '~'):
		return protoRefused, whyProxy // the second version of it is blank lines and a NUL
	case n == 0:
		return other, why
	case len(rest) > 0 && strings.IndexByte(separators, rest[0]) < 0 && rest[0] != '\r' && !known:
		return other, why // not a method
	case !lineEnded && !whole && bytes.IndexByte(rest, 0) >= 0 && !known:
		return other, why // git's protocol, for one, sends text with a NUL in it, and no line end
	case !lineEnded && !whole:
		return protoUndecided, ""
	case !lineEnded && !ended:
		return protoHTTP, "" // too long: the relay's server accepts or refuses it
	case method == "PROXY":
		return protoRefused, whyProxy
	case oldRequest(method, rest):
		return protoRefused, whyOld
	case strings.HasPrefix(method, "SSH-"): // some hosts offer ssh on 443
		return protoOther, ""
	}
	return other, why
}

const blanks = " \t\r\n\v\f"

// tokenBytes are the bytes of a method, RFC 9110 section 5.6.2.
const tokenBytes = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// separators are the characters that some server accepts after a method: Python's splits at all white space of Latin-1.
const separators = " \t\v\f\x1c\x1d\x1e\x1f\x85\xa0"

// methods are the methods whose line is read to its end, with any content.
var methods = [...]string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "PRI", "PROXY"}

// oldRequest reports whether a server may accept a line without a version as a request: if its target is a path, or a
// URL, which may have another name.
func oldRequest(method string, rest []byte) bool {
	for len(rest) > 0 && strings.IndexByte(separators, rest[0]) >= 0 {
		rest = rest[1:]
	}
	target := strings.ToLower(string(rest))
	switch strings.ToUpper(method) {
	case "GET", "HEAD", "POST":
		if strings.Contains(target, "://") {
			return true
		}
	}
	return strings.HasPrefix(target, "/") || strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")
}

// isServerHTTP reports whether the first bytes of a server may be HTTP: an answer to a client that was too slow (408),
// or the SETTINGS that some HTTP/2 servers send first.
func isServerHTTP(b []byte) bool {
	const answer = "HTTP/"
	if n := min(len(b), len(answer)); string(b[:n]) == answer[:n] {
		return true
	}
	settings := [...]byte{0: 0, 1: 0, 3: 4} // a frame's length is three bytes, then comes its type
	for i, want := range settings[:min(len(b), len(settings))] {
		if i != 2 && b[i] != want {
			return false
		}
	}
	return true
}
