package relay

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
)

// serveRequest answers a request.
func (c *clientConn) serveRequest(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		// Without it, net/http reads the whole body before the answer.
		http.NewResponseController(w).EnableFullDuplex()
	}
	if err := c.checkTarget(r); err != nil {
		c.answerError(w, r, err)
		return
	}
	if err := c.permitFetch(r); err != nil {
		c.answerError(w, r, err)
		return
	}
	x := &exchange{clientConn: c, key: keepUpgrade(r)}
	defer x.releaseBodySlot()
	if err := x.fillRequest(r); err != nil {
		c.answerError(w, r, err)
		return
	}
	limitTrailers(r)
	proxy := httputil.ReverseProxy{
		Rewrite:        c.rewrite,
		Transport:      c.first,
		FlushInterval:  -1, // forward at once
		BufferPool:     buffers{},
		ErrorLog:       log.New(io.Discard, "", 0), // its errors may quote answers
		ModifyResponse: x.prepareAnswer,
		ErrorHandler:   c.answerError,
	}
	if r.ProtoMajor == 2 && !c.secure {
		proxy.Transport = c.second
	}
	if !x.mustRedact() {
		proxy.ServeHTTP(w, r)
		return
	}
	answer, failed, whole := x.newRedactingWriter(w), false, false
	defer func() {
		if err := answer.finish(whole); whole && err != nil {
			panic(http.ErrAbortHandler)
		}
	}()
	proxy.ErrorHandler = func(_ http.ResponseWriter, r *http.Request, err error) {
		failed = true
		c.answerError(w, r, err)
	}
	proxy.ServeHTTP(answer, r) // it panics if the answer breaks off
	whole = !failed
}

// rewrite makes the request to the name. ReverseProxy has removed the headers of the client's connection, and
// X-Forwarded-Host and similar ones, which some servers treat as Host.
func (c *clientConn) rewrite(p *httputil.ProxyRequest) {
	out := p.Out
	out.URL.Scheme, out.URL.Host, out.URL.User = c.scheme(), c.route.urlHost(c.scheme()), nil
	out.Host = c.route.hostHeader(p.In.Host)
	// HTTP/2 permits spaces, which would end the address in an HTTP/1.1 request line. Other malformed parameters stay,
	// since programs may sign the query.
	out.URL.RawQuery = strings.ReplaceAll(p.In.URL.RawQuery, " ", "%20")
	out.Trailer = p.In.Trailer // the same map, as it is filled at the end of the body
}

// buffers is the pool of buffers for copying bodies.
type buffers struct{}

const copySize = 256 << 10

var pool = sync.Pool{New: func() any { return new([copySize]byte) }}

func (buffers) Get() []byte  { return pool.Get().(*[copySize]byte)[:] }
func (buffers) Put(b []byte) { pool.Put((*[copySize]byte)(b)) }
