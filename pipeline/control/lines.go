package control

import (
	"net/http"
	"slices"
	"strings"
)

// lines is an answer of any number of JSON values, until the first error: one a line, or as server-sent events if the client wants these.
type lines struct {
	w   http.ResponseWriter
	sse bool
	err error
}

func newLines(w http.ResponseWriter, r *http.Request) *lines {
	accepts := slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool { return strings.Contains(v, "text/event-stream") })
	kind := "application/x-ndjson"
	if accepts {
		kind = "text/event-stream"
		w.Header().Set("X-Accel-Buffering", "no") // nginx would wait for more
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	return &lines{w: w, sse: accepts}
}

// write writes one value, which JSON has in one line.
func (o *lines) write(value []byte) {
	if o.sse {
		value = append(append([]byte("data: "), value...), '\n')
	}
	if o.err == nil {
		_, o.err = o.w.Write(append(value, '\n'))
	}
}

// flush sends what was written.
func (o *lines) flush() {
	if o.err == nil {
		o.err = http.NewResponseController(o.w).Flush()
	}
}

// alive says that the stream lives, where there is a way to.
func (o *lines) alive() {
	if o.sse && o.err == nil {
		_, o.err = o.w.Write([]byte(": alive\n\n"))
		o.flush()
	}
}
