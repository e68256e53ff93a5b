package egress

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
)

// Types of TLS records and of handshake messages, RFC 8446 sections 4 and 5.1.
const (
	recordSpec      = 20 // ChangeCipherSpec
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
	clientHello     = 1
	serverHello     = 2

	recordHeader = 5       // bytes: type, version, length
	maxRecord    = 1 << 14 // bytes in the clear
	maxSealed    = maxRecord + 256
	maxRecords   = 512 // of one hello; one is usual, some clients split it on purpose
)

// Alerts, RFC 8446 section 6.
const (
	alertAccessDenied     = 49
	alertDecodeError      = 50
	alertUnrecognizedName = 112
)

// encryptedHellos are the extensions with an encrypted ClientHello: ECH, its drafts, and its predecessor encrypted SNI.
var encryptedHellos = [...]uint16{0xfe0d, 0xfe0c, 0xfe0b, 0xfe0a, 0xfe09, 0xfe08, 0xffce}

// tlsRefusal is the reason why a TLS client is refused.
type tlsRefusal struct {
	reason string
	alert  byte
}

func (s *tlsRefusal) Error() string { return s.reason }

// helloLength returns the length of the records of a ClientHello at the start of b, or 0 if it is incomplete. It is
// stricter than servers: no other or empty records in between, and nothing after the hello in its last record.
func helloLength(b []byte) (int, error) {
	var head []byte // of the message: its type and three bytes of length
	length := 0     // bytes of the message, with its head, by the records so far
	for at, n := 0, 0; ; n++ {
		switch {
		case n >= maxRecords || at > maxHello:
			return 0, errors.New("it is too long")
		case len(b) > at && b[at] != recordHandshake:
			return 0, errors.New("something else comes before its end")
		case len(b) < at+recordHeader:
			return 0, nil
		}
		size := int(binary.BigEndian.Uint16(b[at+3:]))
		if b[at+1] != 3 || size == 0 || size > maxRecord {
			return 0, errors.New("its records are malformed")
		}
		at += recordHeader
		body := b[at:min(at+size, len(b))]
		head = append(head, body[:min(4-len(head), len(body))]...)
		if len(head) > 0 && head[0] != clientHello {
			return 0, errors.New("it is another message")
		}
		length += size
		if len(head) == 4 {
			want := 4 + (int(head[1])<<16 | int(head[2])<<8 | int(head[3]))
			switch {
			case want > maxHello:
				return 0, errors.New("it is too long")
			case length > want:
				return 0, errors.New("something else is in its last record")
			case length == want && len(body) == size:
				return at + size, nil
			}
		}
		if len(body) < size {
			return 0, nil
		}
		at += size
	}
}

// checkHello returns why a ClientHello is refused, or nil if it is for name. crypto/tls parses it, and refuses
// duplicate extensions and names.
//
// A hello without SNI is refused unless nameless: on an address that several names share, the server
// would choose. An encrypted hello is refused unless we end this TLS ourselves: then the name of the outer hello is the
// only one, and a client that means another one refuses our answer. GREASE hellos, which browsers and Bun send, can't be
// distinguished from encrypted ones.
//
// The content of the TLS is not checked: with a correct SNI, the Host header may name another name of the same server.
func checkHello(b []byte, name string, nameless, ended bool) *tlsRefusal {
	hello, err := readHello(b)
	switch {
	case err != nil:
		return &tlsRefusal{fmt.Sprintf("the TLS ClientHello is not understood: %s", err), alertDecodeError}
	case !ended && slices.ContainsFunc(hello.Extensions, func(e uint16) bool { return slices.Contains(encryptedHellos[:], e) }):
		return &tlsRefusal{"an encrypted ClientHello (ECH) may be for another name: turn it off " +
			"(in Chromium with --disable-features=EncryptedClientHello)", alertAccessDenied}
	case hello.ServerName == "" && nameless:
		return nil
	case hello.ServerName == "":
		return &tlsRefusal{"the TLS ClientHello does not say which name it is for: have the client send SNI, " +
			"by connecting to the name and not to its address", alertUnrecognizedName}
	case len(hello.ServerName) != len(name) || !strings.EqualFold(hello.ServerName, name): // with equal lengths, only ASCII is folded
		return &tlsRefusal{fmt.Sprintf("this connection was made to %s, and its TLS asks for %s (SNI): "+
			"make a new connection to each name", name, quote(hello.ServerName)), alertUnrecognizedName}
	}
	return nil
}

var errHelloRead = errors.New("read, and that is all")

func readHello(b []byte) (*tls.ClientHelloInfo, error) {
	if _, err := helloLength(b); err != nil {
		return nil, err
	}
	var hello *tls.ClientHelloInfo
	err := tls.Server(&replayConn{r: bytes.NewReader(b)}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			hello = h
			return nil, errHelloRead
		},
	}).Handshake()
	if hello != nil {
		return hello, nil
	}
	return nil, fmt.Errorf("it is malformed (%.100q)", err)
}

// replayConn is a connection that replays recorded bytes, and discards writes.
type replayConn struct {
	net.Conn
	r io.Reader
}

func (p *replayConn) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p *replayConn) Write(b []byte) (int, error) { return len(b), nil }

// retryRandom is the random of a ServerHello that is a HelloRetryRequest, RFC 8446 section 4.1.3.
var retryRandom = [...]byte{
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
	0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
}

// asksAgain reports whether a server's first record, of handshake messages, asks for a second ClientHello. No server
// splits a ServerHello before its random; if one does, the client's next bytes are checked like a second hello.
func asksAgain(record []byte) bool {
	const before = recordHeader + 4 + 2 // the message's head and a version
	return len(record) < before+len(retryRandom) || record[recordHeader] == serverHello && bytes.HasPrefix(record[before:], retryRandom[:])
}
