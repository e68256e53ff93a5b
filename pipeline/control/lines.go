package control

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// lines is an answer of any number of JSON values, until the first error: one a line, or as server-sent events if the client wants these.
type lines struct {
	*door.Stream
	sse bool
}

func newLines(w http.ResponseWriter, r *http.Request) *lines {
	w.Header().Set("Cache-Control", "no-store")
	if slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool { return strings.Contains(v, "text/event-stream") }) {
		return &lines{door.BeginEvents(w), true}
	}
	return &lines{door.BeginStream(w, "application/x-ndjson", ""), false}
}

// line returns the line of a value, which JSON has in one.
func (o *lines) line(value []byte) []byte {
	if o.sse {
		value = append(append([]byte("data: "), value...), '\n')
	}
	return append(value, '\n')
}
