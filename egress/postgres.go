package egress

import (
	"context"
	"io"
)

// passPostgres forwards PostgreSQL's requests for encryption, their one-byte answers, and then TLS. A hello without SNI
// passes: these servers need none, and clients before libpq 14 send none. A server for many databases then uses the
// name inside the TLS. Bytes after a refusal of encryption are in the clear, and name no host.
func (c *connection) passPostgres(ctx context.Context, o *prelude) {
	server, err := o.waitForServer()
	if err != nil {
		return
	}
	client := o.newClientTap()
	for more := true; more; {
		n := len(postgresRequests[0])
		request := client.held[:n:n]
		client.held = client.held[n:]
		if _, err := server.Write(request); err != nil {
			return
		}
		var answer [1]byte
		switch _, err := io.ReadFull(server, answer[:]); {
		case err == io.EOF:
			c.closeAll()
			return
		case err != nil:
			return
		}
		if more, err = c.passEncryptionAnswer(ctx, server, client, answer[0]); err != nil {
			return
		}
	}
}

// The answers to a request for encryption.
// https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL
const (
	answerTLS   = 'S'
	answerGSS   = 'G'
	answerNo    = 'N'
	answerError = 'E' // the first byte of a message, after which the server closes
)

// passEncryptionAnswer forwards a server's answer and the bytes after it, and reports whether those are another
// request.
func (c *connection) passEncryptionAnswer(ctx context.Context, server, client *tap, answer byte) (more bool, err error) {
	switch answer {
	case answerTLS, answerGSS, answerNo, answerError:
	default:
		c.recordRefusal(ctx, "the server's answer to PostgreSQL's request for encryption is not PostgreSQL's")
		return false, nil
	}
	if _, err := client.Write([]byte{answer}); err != nil {
		return false, err
	}
	if answer == answerError { // the server closes after an error
		err := c.copyOneWay(client, server, server.in)
		if err == nil {
			c.closeAll()
		}
		return false, err
	}
	s, why, err := c.sniffAgain(client)
	if err != nil {
		return false, err
	}
	// After accepting GSSAPI, the bytes are length-prefixed tokens, an unknown protocol.
	switch {
	case s == protoTLS && answer != answerGSS:
		if no := checkHello(client.held, c.name, true, false); no != nil {
			c.refuseTLS(ctx, no)
			return false, nil
		}
		c.sendHello(ctx, server, client, true)
	case s == protoPostgres && answer == answerNo:
		return true, nil
	case s == protoOther && answer != answerTLS:
		c.splice(server, client)
	case why == "":
		c.recordRefusal(ctx, "what followed PostgreSQL's request for encryption is not PostgreSQL")
	default:
		c.recordRefusal(ctx, why)
	}
	return false, nil
}

// sniffAgain detects the protocol of a client's later bytes, without sending unfinished lines.
func (c *connection) sniffAgain(client *tap) (protocol, string, error) {
	o := &prelude{c: c, held: client.held, reads: readPhase{conn: c.client, done: make(chan struct{})}}
	s, why, err := o.sniffClient()
	client.held = o.held
	return s, why, err
}
