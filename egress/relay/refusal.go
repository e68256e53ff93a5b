package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// refusedHeader marks the relay's responses to refused requests.
const refusedHeader = "X-Sandboxmcp-Refused"

// refusal is the reason why a request is not forwarded.
type refusal struct {
	status int
	reason string
}

func (r refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error {
	return refusal{http.StatusForbidden, fmt.Sprintf(format, args...)}
}

// dialError is an error of Route.Dial.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// badAnswer is the reason why a response is not forwarded. It must not quote the response.
type badAnswer string

func (b badAnswer) Error() string { return string(b) }

// answerError answers r with the reason of err.
func (c *clientConn) answerError(w http.ResponseWriter, r *http.Request, err error) {
	var no refusal
	var dial dialError
	switch {
	case errors.As(err, &no):
	case errors.As(err, &dial) && errors.Is(err, ErrRefused):
		no = refusal{http.StatusForbidden, dial.Error()}
	default:
		no = refusal{http.StatusBadGateway, c.explain(err)}
		if f := c.relay.cfg.Fetch; f != nil {
			f.OnFailure(no.reason)
		}
	}
	h := w.Header()
	clear(h)
	if no.status != http.StatusBadGateway {
		h.Set(refusedHeader, "1")
		if c.route.OnRefusal != nil {
			c.route.OnRefusal(no.reason)
		}
		if r.ProtoMajor == 1 {
			h.Set("Connection", "close") // later bytes rely on a request that was refused
		}
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(no.status)
	io.WriteString(w, "sandboxmcp: "+no.reason+"\n")
}

// explain describes why there is no answer. Errors of net/http may quote the name's bytes, and so pieces of a secret:
// for terminated connections, it reports only errors from before the first request.
func (c *clientConn) explain(err error) string {
	name := c.route.address()
	var dial dialError
	var verify *tls.CertificateVerificationError
	var op *net.OpError
	var bad badAnswer
	var timeout net.Error
	switch {
	case errors.As(err, &bad):
		return fmt.Sprintf("the answer of %s can't be passed on: %s", name, bad)
	case errors.As(err, &dial):
		return fmt.Sprintf("connect to %s: %v", name, dial)
	case errors.As(err, &verify):
		return fmt.Sprintf("%s has no certificate that can be trusted: %v", name, verify.Err)
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Sprintf("make a TLS connection to %s: it says %v", name, op.Err)
	case errors.Is(err, context.Canceled):
		return fmt.Sprintf("the request to %s was given up", name)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Sprintf("%s closed the connection without an answer", name)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("%s takes too long", name)
	case c.secure || len(c.relay.secrets()) > 0:
		return fmt.Sprintf("the request to %s failed: no answer in HTTP came back", name)
	}
	return fmt.Sprintf("request to %s: %.300q", name, err.Error())
}
