package podman

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// nameFiles are the files that tell programs how names are resolved: by our own init, or not at all.
var nameFiles = []struct{ path, text string }{
	{"etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"},
	{"etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"},
}

// putNames writes the files that are not bound into a container that does not run: its root directory is read-only only
// for the container itself. Podman's own files would be made from the host's.
func (e *Engine) putNames(ctx context.Context, id string, c container.Container) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	any := false
	for _, n := range nameFiles {
		if slices.ContainsFunc(c.Binds, func(b container.Bind) bool { return path.Clean(b.Inside) == "/"+n.path }) {
			continue
		}
		any = true
		w.WriteHeader(&tar.Header{Name: n.path, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(n.text))})
		w.Write([]byte(n.text))
	}
	if err := w.Close(); err != nil || !any {
		return err
	}
	if err := e.put(ctx, id, "/", bytes.NewReader(archive.Bytes())); err != nil {
		return fmt.Errorf("write resolv.conf and hosts into a container: %w", err)
	}
	return nil
}

// put unpacks a tar archive in a container, with the archive's owners.
func (e *Engine) put(ctx context.Context, id, dir string, archive io.Reader) error {
	return e.call(ctx, request{
		method: http.MethodPut, path: "/containers/" + url.PathEscape(id) + "/archive",
		query:  url.Values{"path": {dir}, "copyUIDGID": {"false"}},
		header: http.Header{"Content-Type": {"application/x-tar"}},
		body:   archive,
	}, nil)
}
