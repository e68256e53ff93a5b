package relay

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
)

// answer prepares res for the program, or returns why it can't be passed on.
func (x *exchange) answer(res *http.Response) error {
	x.release()
	if res.StatusCode == http.StatusSwitchingProtocols {
		if err := checkUpgrade(x.key, res.Header); err != nil {
			return err
		}
	}
	if f := x.relay.cfg.Fetch; f != nil {
		if err := f.Answered(res); err != nil {
			return badAnswer(err.Error())
		}
	}
	if !x.redacts() {
		return nil
	}
	x.redact(res.Header)
	res.Status = x.relay.cfg.Redact(res.Status)
	if res.StatusCode == http.StatusSwitchingProtocols {
		return x.checkLeases()
	}
	var body io.Reader = res.Body
	if hasBody(res) {
		var err error
		if body, err = Decoded(res); err != nil {
			return err
		}
		// What a Mark changes is not known before the end.
		res.Header.Del("Content-Length")
		res.ContentLength = -1
	}
	res.Body = x.redacted(res, body)
	return x.checkLeases()
}

func hasBody(res *http.Response) bool {
	return res.Request.Method != http.MethodHead && res.StatusCode != http.StatusNoContent &&
		res.StatusCode != http.StatusNotModified && res.ContentLength != 0
}

// redact removes values from headers or trailers, and headers that would lead the program past this relay.
func (x *exchange) redact(h http.Header) {
	h.Del("Alt-Svc") // there is no QUIC inside
	if x.relay.cfg.Fetch != nil || slices.ContainsFunc(x.filled, func(s Secret) bool { return s.Require }) {
		// Coming back, a cookie would be a credential of the program's own. It may also be worth as much as the secret.
		h.Del("Set-Cookie")
	}
	for name, values := range h {
		if x.names(name) {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = x.relay.cfg.Redact(v)
		}
	}
}

// names reports whether a header's name, whose case is lost, contains a value.
func (x *exchange) names(name string) bool {
	name = strings.ToLower(name)
	for _, s := range x.filled {
		if v := s.Value(); v != "" && strings.Contains(name, strings.ToLower(v)) {
			return true
		}
	}
	return x.relay.cfg.Redact(name) != name
}

// interim redacts the headers of 1xx answers, which ReverseProxy passes on by itself.
type interim struct {
	http.ResponseWriter
	x *exchange
}

func (w interim) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w interim) WriteHeader(status int) {
	if status < 200 {
		w.x.redact(w.Header())
		if w.x.checkLeases() != nil {
			clear(w.Header())
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// redactedBody is an answer's body without secrets. Each Read returns as soon as there is something
// that can be passed on, so that events are passed on as events.
type redactedBody struct {
	x      *exchange
	res    *http.Response
	source io.Reader // of closer, decoded
	closer io.Closer
	ready  bytes.Buffer
	filter io.WriteCloser // writes to ready
	buf    []byte
	err    error // of source; behind what is ready
}

func (x *exchange) redacted(res *http.Response, source io.Reader) io.ReadCloser {
	b := &redactedBody{x: x, res: res, source: source, closer: res.Body}
	b.filter = x.relay.cfg.Redactor(&b.ready)
	return b
}

func (b *redactedBody) Read(p []byte) (int, error) {
	if b.buf == nil {
		b.buf = make([]byte, bufferSize)
	}
	for b.ready.Len() == 0 && b.err == nil {
		b.fill()
	}
	if b.ready.Len() > 0 {
		return b.ready.Read(p)
	}
	return 0, b.err
}

func (b *redactedBody) fill() {
	n, err := b.source.Read(b.buf)
	if n > 0 {
		if _, failed := b.filter.Write(b.buf[:n]); failed != nil {
			err = failed
		}
	}
	if err == io.EOF {
		// Only a whole response releases the bytes held back; the beginning of a value is never passed on.
		if failed := b.filter.Close(); failed != nil {
			err = failed
		}
	}
	if gone := b.x.checkLeases(); gone != nil {
		b.ready.Reset()
		err = gone
	}
	b.err = err
}

func (b *redactedBody) Close() error {
	err := b.closer.Close()
	if b.err != io.EOF {
		b.filter.Close() // it wipes what it holds
		b.ready.Reset()
	}
	b.x.redact(b.res.Trailer) // which ReverseProxy reads after this
	if b.x.checkLeases() != nil {
		clear(b.res.Trailer)
	}
	return err
}
