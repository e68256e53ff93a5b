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

// What is read of a body is counted as it comes, see [body]. What a handler makes of it counts here.

// Passing returns a reader of a body, or of what is in it, whose user holds no more than it has just read.
func Passing(r *http.Request, from io.Reader) io.Reader { return &passing{from, VisitOf(r.Context())} }

type passing struct {
	io.Reader
	v *Visit
}

func (p *passing) Read(b []byte) (int, error) {
	p.v.ReleaseBody()
	return p.Reader.Read(b)
}

// Gathered returns a body that [ReadBody] has read, for who reads it again.
func Gathered(body []byte) io.ReadCloser { return &gathered{bytes.NewReader(body), body} }

type gathered struct {
	*bytes.Reader
	all []byte
}

func (g *gathered) Close() error { return nil }

// ReadBody reads the whole body of a request, of so many bytes at most. The error is a *[http.MaxBytesError], a
// *[Refused], or says that the body can't be read.
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

// ReadJSON reads the body of a request, which is JSON of so many bytes at most, into v. The error is a *[Refused], with
// the text tooLarge where there are more.
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

// ReadAll reads all that there is, of so many bytes at most. size is how many are expected: memory is taken as they
// come.
func ReadAll(from io.Reader, size, most int64) ([]byte, error) {
	const first = 4 << 10
	all := make([]byte, 0, min(size+1, first))
	for {
		if len(all) == cap(all) { // by half, so that little is unused, and what is expected at most at once
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

// Texts of more bytes than these are decoded by so many requests at once: decoding takes several times their memory,
// for a moment.
var decodeLimits = []struct{ bytes, requests int }{{1 << 20, 1}, {64 << 10, 8}}

// perValue is what a value of a list or an object takes when it is decoded, about, in bytes: it may be three in a text.
const perValue = 48

// Decode calls f, which decodes a text of so many bytes that a request has brought, when there is room for that, and
// for so many values.
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

// waitForSlot waits until a slot is free, and takes it.
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

// Values returns about how many values the lists and objects of a text in JSON have.
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
