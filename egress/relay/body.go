package relay

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
)

const (
	maxBody   = 10 << 20 // bytes of a body before substitution, and again of the added bytes
	maxBodies = 4        // bodies in memory at once; further requests wait
)

var errTooLarge = refusal{http.StatusRequestEntityTooLarge, "secrets are put into bodies of at most 10 MiB"}

// fillBody puts secrets with Body set into the body of r, if there are any. It reads the whole body first, so the body
// can't be half of a conversation. gRPC bodies stay: their messages have length prefixes.
func (x *exchange) fillBody(f *substitution, r *http.Request) error {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.ContentLength == 0 || strings.HasPrefix(kind, "application/grpc") ||
		!slices.ContainsFunc(f.secrets, func(s Secret) bool { return s.Body }) {
		return nil
	}
	for _, e := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(e, "identity") {
			return refuse("secrets can't be put into a body with Content-Encoding %s: send it as it is", quoteShort(e))
		}
	}
	if r.ContentLength > maxBody {
		return errTooLarge
	}
	if err := x.acquireBodySlot(r); err != nil {
		return err
	}
	var text strings.Builder
	if n, err := io.Copy(&text, io.LimitReader(r.Body, maxBody+1)); err != nil {
		return refusal{http.StatusBadRequest, "the request's body could not be read"}
	} else if n > maxBody {
		return errTooLarge
	}
	filled, err := f.replaceInBody(text.String(), kind)
	if err != nil {
		return err
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(filled)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength, r.TransferEncoding = int64(len(filled)), nil
	r.Header.Del("Expect") // the relay has read the body already
	return nil
}

// replaceInBody is replace for the secrets that may be put into bodies.
func (f *substitution) replaceInBody(text, kind string) (string, error) {
	s := inText
	switch {
	case strings.Contains(kind, "json"): // application/json, application/problem+json, application/x-ndjson
		s = inJSON
	case kind == "application/x-www-form-urlencoded":
		s = inForm
	}
	in := *f
	in.secrets, in.bytesLeft = slices.Clone(f.secrets), maxBody
	for i := range in.secrets {
		if !in.secrets[i].Body {
			in.secrets[i].Placeholder = "" // matches nothing
		}
	}
	return in.replace(text, s)
}

// acquireBodySlot waits for a slot for a body in memory.
func (x *exchange) acquireBodySlot(r *http.Request) error {
	select {
	case x.relay.bodies <- struct{}{}:
		x.hasBodySlot = true
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// releaseBodySlot frees the slot, if it is held.
func (x *exchange) releaseBodySlot() {
	if x.hasBodySlot {
		x.hasBodySlot = false
		<-x.relay.bodies
	}
}
