package relay

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
)

// prepareAnswer prepares res for the program, or returns why it can't be forwarded.
func (x *exchange) prepareAnswer(res *http.Response) error {
	x.releaseBodySlot()
	if res.StatusCode == http.StatusSwitchingProtocols {
		if err := checkUpgrade(x.key, res.Header); err != nil {
			return err
		}
	}
	if f := x.relay.cfg.Fetch; f != nil {
		if err := f.OnAnswer(res); err != nil {
			return badAnswer(err.Error())
		}
	}
	if !x.mustRedact() {
		return nil
	}
	x.redact(res.Header)
	res.Status = x.relay.cfg.Redact(res.Status)
	if res.StatusCode == http.StatusSwitchingProtocols {
		return x.checkLeases()
	}
	if hasBody(res) {
		body, err := Decoded(res)
		if err != nil {
			return err
		}
		res.Body = struct {
			io.Reader
			io.Closer
		}{body, res.Body}
		// Redaction may change the length.
		res.Header.Del("Content-Length")
		res.ContentLength = -1
	}
	return x.checkLeases()
}

func hasBody(res *http.Response) bool {
	return res.Request.Method != http.MethodHead && res.StatusCode != http.StatusNoContent &&
		res.StatusCode != http.StatusNotModified && res.ContentLength != 0
}

// redact removes values from headers or trailers, and headers that would make the program bypass this relay.
func (x *exchange) redact(h http.Header) {
	unwanted := []string{"Alt-Svc"} // a sandbox has no QUIC
	if x.relay.cfg.Fetch != nil || slices.ContainsFunc(x.filled, func(s Secret) bool { return s.Require }) {
		// The program could send a cookie later as a credential of its own, possibly as valuable as the secret.
		unwanted = append(unwanted, "Set-Cookie")
	}
	for name, values := range h {
		if slices.Contains(unwanted, strings.TrimPrefix(name, http.TrailerPrefix)) || x.containsValue(name) {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = x.relay.cfg.Redact(v)
		}
	}
}

// containsValue reports whether a header's name, whose case is lost, contains a value.
func (x *exchange) containsValue(name string) bool {
	name = strings.ToLower(name)
	for _, s := range x.filled {
		if v := s.Value(); v != "" && strings.Contains(name, strings.ToLower(v)) {
			return true
		}
	}
	return x.relay.cfg.Redact(name) != name
}

// redactingWriter forwards an answer without secrets. Each Write forwards as much as possible, for event streams.
type redactingWriter struct {
	http.ResponseWriter
	x      *exchange
	filter io.WriteCloser // writes to sink
	cut    bool           // nothing more is forwarded
}

func (x *exchange) newRedactingWriter(w http.ResponseWriter) *redactingWriter {
	r := &redactingWriter{ResponseWriter: w, x: x}
	r.filter = x.relay.cfg.Redactor(sink{r})
	return r
}

func (w *redactingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader redacts the headers of 1xx answers, which ReverseProxy forwards by itself.
func (w *redactingWriter) WriteHeader(status int) {
	if status < 200 {
		w.redactHeader()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *redactingWriter) redactHeader() {
	w.x.redact(w.Header())
	if w.x.checkLeases() != nil {
		clear(w.Header())
	}
}

func (w *redactingWriter) Write(p []byte) (int, error) { return w.filter.Write(p) }

// sink receives the filter's output.
type sink struct{ *redactingWriter }

func (s sink) Write(p []byte) (int, error) {
	if s.cut || len(p) == 0 { // in HTTP/2, even an empty Write can fail
		return len(p), nil
	}
	if err := s.x.checkLeases(); err != nil {
		return 0, err
	}
	return s.ResponseWriter.Write(p)
}

// finish ends the answer, with its trailers. Only a whole answer releases the bytes held back, since they may be the
// start of a value. After an error, the forwarded answer is incomplete.
func (w *redactingWriter) finish(whole bool) error {
	w.cut = !whole
	err := w.filter.Close() // it wipes what it holds
	if whole {
		w.redactHeader()
		err = cmp.Or(err, w.x.checkLeases())
	}
	return err
}
