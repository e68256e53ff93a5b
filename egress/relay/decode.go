package relay

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// Decoded returns the body of res without its Content-Encoding, which some servers choose although none was requested.
// Memory is bounded for any expansion.
func Decoded(res *http.Response) (io.Reader, error) {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(res.Header["Content-Encoding"], ",")))
	var open func(io.Reader) (io.Reader, error)
	switch encoding {
	case "", "identity":
		return res.Body, nil
	case "gzip", "x-gzip":
		open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		open = inflate
	default:
		return nil, badAnswer("its Content-Encoding " + quoteShort(encoding) + " hides what is in it")
	}
	if res.StatusCode == http.StatusPartialContent {
		return nil, badAnswer("it is a part of something compressed")
	}
	res.Header.Del("Content-Encoding")
	return &lazyReader{source: res.Body, open: open}, nil
}

// inflate reads the format of Content-Encoding deflate: zlib (RFC 9110, section 8.4.1.2), or raw deflate, which some
// servers send.
func inflate(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}

// lazyReader opens its source at the first read, so that an answer's headers don't wait for its body.
type lazyReader struct {
	source io.Reader
	open   func(io.Reader) (io.Reader, error)
	opened io.Reader
	err    error
}

func (l *lazyReader) Read(p []byte) (int, error) {
	if l.opened == nil && l.err == nil {
		l.opened, l.err = l.open(l.source)
		if l.err == io.EOF {
			l.err = io.ErrUnexpectedEOF
		}
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.opened.Read(p)
}
