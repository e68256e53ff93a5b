package web

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// take reads a response. It keeps no more of the body than it may, packed and unpacked.
func (c *Client) take(ctx context.Context, response *http.Response, at *url.URL) (*Response, error) {
	r := &Response{URL: at, Status: response.StatusCode, Header: response.Header}
	wire := &io.LimitedReader{R: response.Body, N: c.cfg.MaxBytes}
	var decoded io.Reader = wire
	switch encoding := strings.ToLower(strings.TrimSpace(response.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(wire)
		switch {
		case errors.Is(err, io.EOF): // a response without a body may claim to be packed
			return r, nil
		case err != nil && ctx.Err() == nil:
			return nil, fmt.Errorf("read %s: it says that the page is packed by gzip, and it is not", at.Hostname())
		case err != nil:
			return nil, late(ctx, at)
		}
		decoded = unpacked
	default:
		return nil, fmt.Errorf("read %s: the page is packed by %q, which was not asked for", at.Hostname(), brief(encoding))
	}
	body, err := io.ReadAll(io.LimitReader(decoded, c.cfg.MaxBytes+1))
	switch {
	case ctx.Err() != nil:
		return nil, late(ctx, at)
	case int64(len(body)) > c.cfg.MaxBytes:
		body, r.Cut = body[:c.cfg.MaxBytes], true
	case wire.N == 0: // all that may come has come: one byte more tells whether it was all
		n, _ := io.ReadFull(response.Body, make([]byte, 1))
		r.Cut = n > 0
	case err != nil && len(body) == 0:
		return nil, fmt.Errorf("read %s: %s", at.Hostname(), oneLine(err.Error()))
	case err != nil:
		r.Cut = true
	}
	r.Body = body
	return r, nil
}

func late(ctx context.Context, at *url.URL) error {
	return fmt.Errorf("read %s: %w", at.Hostname(), context.Cause(ctx))
}
