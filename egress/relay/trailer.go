package relay

import (
	"io"
	"maps"
	"net/http"
	"slices"
)

// trailerBody is a request's body with trailers. net/http accepts any trailers if one was announced; the relay drops
// those that were not announced, and those that a server which merges trailers would treat as header fields.
type trailerBody struct {
	io.ReadCloser
	trailer   http.Header
	announced []string
}

// neverTrailing are fields that decide how a server parses a request, and for which host it is.
var neverTrailing = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Upgrade", "Te", "Expect"}

func limitTrailers(r *http.Request) {
	if len(r.Trailer) == 0 {
		return
	}
	for _, name := range neverTrailing {
		delete(r.Trailer, name)
	}
	r.Body = trailerBody{r.Body, r.Trailer, slices.Collect(maps.Keys(r.Trailer))}
}

func (t trailerBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != nil {
		maps.DeleteFunc(t.trailer, func(name string, _ []string) bool { return !slices.Contains(t.announced, name) })
	}
	return n, err
}
