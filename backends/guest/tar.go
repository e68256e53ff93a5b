package guest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Unpacked counts the contents of a tar.
type Unpacked struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"` // of their content
}

// Links selects the symbolic links that a tar includes.
type Links bool

// By default, a tar omits links that lead out of the directory, and Unpack refuses them. AllLinks includes them
// unchanged, for a directory that returns to its place.
const (
	OwnLinks Links = false
	AllLinks Links = true
)

func (l Links) args(dir string) url.Values {
	args := url.Values{"path": {dir}}
	if l {
		args.Set("links", "all")
	}
	return args
}

// Pack opens the contents of a directory as a tar. The caller closes it. A truncated tar ends with an error.
func (c *Client) Pack(ctx context.Context, dir string, l Links) (io.ReadCloser, error) {
	res, err := c.send(ctx, http.MethodGet, "/tar", l.args(dir), nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Unpack writes the contents of a tar into a directory, which is made if it is missing: all of it, or with an error
// nothing but single complete files.
func (c *Client) Unpack(ctx context.Context, dir string, l Links, content io.Reader) (u Unpacked, err error) {
	body := &refusedTail{Reader: content}
	err = c.call(ctx, http.MethodPut, "/tar", l.args(dir), io.NopCloser(body), &u)
	if failed := body.err.Load(); failed != nil {
		err = *failed
	}
	return u, err
}

// refusedTail ends content that fails with a byte that no tar ends with. The agent refuses that, and has removed
// its temporary directory when it answers; an aborted request returns before that.
type refusedTail struct {
	io.Reader
	err atomic.Pointer[error]
}

// Read implements [io.Reader].
func (r *refusedTail) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == nil || err == io.EOF || len(b) == 0 {
		return n, err
	}
	r.err.Store(&err)
	b[0] = 'x'
	return 1, io.EOF
}

// LeadsInside reports whether a link's target text stays inside the tar's directory: its ".." elements come first,
// so that no link before them can lead elsewhere.
func LeadsInside(name, target string) bool {
	up := true
	for part := range strings.SplitSeq(target, "/") {
		if up = up && part == ".."; part == ".." && !up {
			return false
		}
	}
	return !path.IsAbs(target) && target != "" && filepath.IsLocal(path.Join(path.Dir(name), target))
}
