package egress

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"time"
)

// refusalReadTime is the time for a client to read the reason of its refusal.
const refusalReadTime = time.Second

// passTLS forwards TLS after its ClientHello was read.
func (c *connection) passTLS(ctx context.Context, o *prelude, opens bool) {
	if no := checkHello(o.held, c.name, net.ParseIP(c.name) != nil, opens); no != nil {
		c.refuseTLS(ctx, no)
		return
	}
	if opens {
		c.passHTTP(ctx, o, c.g.config.Relay.ServeTLS)
		return
	}
	server, err := o.waitForServer()
	if err != nil {
		return
	}
	c.sendHello(ctx, server, o.newClientTap(), false)
}

// sendHello sends the checked ClientHello, and forwards the rest, unless it is a second hello for another name: a
// server may ask for a second one (HelloRetryRequest), and some, such as OpenSSL, then use its name.
func (c *connection) sendHello(ctx context.Context, server, client *tap, nameless bool) {
	n, err := helloLength(client.held)
	if err != nil || n == 0 { // it was checked before, so this is our bug
		return
	}
	hello := client.held[:n:n]
	client.held = client.held[n:]
	if _, err := server.Write(hello); err != nil {
		return
	}
	// The client's bytes wait meanwhile: they can be early data, or a premature second hello.
	unwatch := watchHangUp(c.client, c.resetAll) // clients don't close one half before the handshake
	again, err := c.passServerHello(server, client)
	unwatch()
	if err != nil {
		return
	}
	c.spliceAfter(server, client, func() (err error) { // the server may still send its answer
		for again && err == nil {
			again, err = c.passRetry(ctx, server, client, nameless)
		}
		return err
	})
}

// passServerHello forwards the first record of the server's answer, and reports whether it asks for another hello.
func (c *connection) passServerHello(server, client *tap) (again bool, err error) {
	b := make([]byte, 4<<10)
	n, err := server.Read(b)
	b = b[:n]
	if n > 0 && b[0] == recordHandshake {
		server.held = b
		if b, err = readRecord(server, nil); err == nil {
			again = asksAgain(b)
		}
	}
	if err != nil && err != io.EOF {
		return false, err
	}
	_, err = client.Write(b)
	return again, err
}

// passRetry forwards one record of a client that must send another hello, or all records of the hello after a check. It
// reports whether the hello is still to come.
func (c *connection) passRetry(ctx context.Context, server, client *tap, nameless bool) (again bool, err error) {
	var sent []byte
	for {
		between := len(sent) == 0
		sent, err = readRecord(client, sent)
		if err == io.EOF && between { // it gave up
			return false, nil
		}
		if err != nil {
			return false, err
		}
		switch sent[0] {
		// Records for middle boxes, warnings or "user canceled", and early data: servers skip these, and after a fatal alert
		// a checked hello is harmless.
		case recordSpec, recordAlert, recordData:
			_, err = server.Write(sent)
			return true, err
		}
		n, err := helloLength(sent)
		if n == 0 && err == nil {
			continue
		}
		if no := checkHello(sent, c.name, nameless, false); no != nil {
			c.refuseTLS(ctx, no)
			return false, no
		}
		_, err = server.Write(sent)
		return false, err
	}
}

// readRecord appends a whole record to b.
func readRecord(r io.Reader, b []byte) ([]byte, error) {
	at := len(b)
	b = append(b, make([]byte, recordHeader)...)
	if _, err := io.ReadFull(r, b[at:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint16(b[at+3:]))
	if size > maxSealed {
		return nil, &tlsRefusal{reason: "a TLS record is too long"}
	}
	b = slices.Grow(b, size)[:at+recordHeader+size]
	_, err := io.ReadFull(r, b[at+recordHeader:])
	return b, err
}

// refuseTLS refuses a TLS client with an alert, so that it fails at once with the reason.
func (c *connection) refuseTLS(ctx context.Context, no *tlsRefusal) {
	c.record(ctx, Decision{Reason: no.reason})
	_ = c.client.SetDeadline(time.Now().Add(refusalReadTime))
	if _, err := c.client.Write([]byte{recordAlert, 3, 3, 0, 2, 2, no.alert}); err == nil {
		// An earlier close would reset the connection before the client has read the reason.
		_ = closeWrite(c.client)
		_, _ = io.CopyN(io.Discard, c.client, maxHello)
		c.closeAll()
	}
}
