package relay

import (
	"io"
	"maps"
	"net/http"
	"slices"
)

// trailerBody is a request's body, behind which trailers come. net/http takes whatever comes there as soon
// as one was announced; what was not announced, and what would be read as part of the head by a server
// that merges the two, is not passed on.
type trailerBody struct {
	io.ReadCloser
	trailer   http.Header
	announced []string
}

// neverTrailing are fields that decide how a server reads a request, and for which host the request is.
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
