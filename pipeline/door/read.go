package door

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"
)

// [body] counts the bytes of a body as they arrive; these functions count the memory of decoded values.

// Passing returns a reader of a body, or of its content, whose user keeps only the bytes of its last read.
func Passing(r *http.Request, from io.Reader) io.Reader { return &passing{from, VisitOf(r.Context())} }

type passing struct {
	io.Reader
	v *Visit
}

func (p *passing) Read(b []byte) (int, error) {
	p.v.ReleaseBody()
	return p.Reader.Read(b)
}

// Gathered returns a body that [ReadBody] has read already, so that it can be read again.
func Gathered(body []byte) io.ReadCloser { return &gathered{bytes.NewReader(body), body} }

type gathered struct {
	*bytes.Reader
	all []byte
}

func (g *gathered) Close() error { return nil }

// ReadBody reads the whole body of a request, at most most bytes. The error is a *[http.MaxBytesError], a *[Refused],
// or a read error.
func ReadBody(r *http.Request, most int64) ([]byte, error) {
	if g, ok := r.Body.(*gathered); ok {
		return g.all, nil
	}
	size := most
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength)
	}
	return ReadAll(r.Body, size, most)
}

// ReadJSON decodes the JSON body of a request, at most most bytes, into v. The error is a *[Refused], with the text
// tooLarge for more bytes.
func ReadJSON(r *http.Request, v any, most int64, tooLarge string) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return Refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	body, err := ReadBody(r, most)
	if err == nil {
		err = Decode(r.Context(), len(body), Values(body), func() error { return json.Unmarshal(body, v) })
	}
	switch {
	case err == nil, errors.As(err, new(*Refused)):
		return err
	case errors.As(err, new(*http.MaxBytesError)):
		return Refuse(http.StatusRequestEntityTooLarge, tooLarge)
	}
	return Refuse(http.StatusBadRequest, "the body can't be read: "+err.Error())
}

// ReadAll reads everything, at most most bytes. size is the expected number; memory grows as the bytes arrive.
func ReadAll(from io.Reader, size, most int64) ([]byte, error) {
	const first = 4 << 10
	all := make([]byte, 0, min(size+1, first))
	for {
		if len(all) == cap(all) { // grow by half, which wastes little, but not beyond the expected size
			more := int64(cap(all) + max(cap(all)/2, first))
			if size >= int64(len(all)) {
				more = min(more, size+1)
			}
			grown := make([]byte, len(all), more)
			copy(grown, all)
			all = grown
		}
		n, err := from.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		switch {
		case int64(len(all)) > most:
			return nil, &http.MaxBytesError{Limit: most}
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		}
	}
}

// Texts above these sizes are decoded by a limited number of requests at once: decoding takes several times their
// memory for a moment.
var decodeLimits = []struct{ bytes, requests int }{{1 << 20, 1}, {64 << 10, 8}}

// perValue is the approximate memory of a decoded list or object value, in bytes; its text may have three.
const perValue = 48

// Decode calls f, which decodes a text of size bytes and about so many values, once there is room for it.
func Decode(ctx context.Context, size int, values int64, f func() error) error {
	v := VisitOf(ctx)
	if v == nil {
		return f()
	}
	if err := v.reserveBytes(ctx, perValue*values); err != nil {
		return err
	}
	for i, l := range decodeLimits {
		if size <= l.bytes {
			continue
		}
		if !v.waitForSlot(ctx, v.d.decoding[i]) {
			return cmp.Or(context.Cause(ctx), error(errBusy))
		}
		defer func() { <-v.d.decoding[i] }()
		break
	}
	return f()
}

// waitForSlot acquires a slot, and returns false if that takes too long.
func (v *Visit) waitForSlot(ctx context.Context, slots chan<- struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
	}
	return v.boundWait(func(late <-chan time.Time) bool {
		select {
		case slots <- struct{}{}:
			return true
		case <-late:
		case <-ctx.Done():
		}
		return false
	})
}

// Values returns the approximate number of values in the lists and objects of a JSON text.
func Values(text []byte) (n int64) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == ':' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}
