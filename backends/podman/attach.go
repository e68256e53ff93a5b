package podman

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// Attach implements [container.Engine].
func (e *Engine) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	conn, r, err := e.hijack(ctx, request{
		method: http.MethodPost, path: "/containers/" + url.PathEscape(id) + "/attach",
		query:  url.Values{"stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "stream": {"true"}},
		header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"tcp"}},
	})
	if err != nil {
		return nil, fmt.Errorf("attach to a container: %w", err)
	}
	return &attached{Conn: conn, output: engine.Output(r, stderr)}, nil
}

// hijack sends a request on a connection of its own, which the caller then owns.
func (e *Engine) hijack(ctx context.Context, r request) (net.Conn, *bufio.Reader, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	req, err := r.build(ctx)
	if err != nil {
		return nil, nil, err
	}
	transport, ok := l.conn.Client.Transport.(*http.Transport)
	if !ok {
		return nil, nil, errors.New("this connection can't be taken over")
	}
	conn, err := transport.DialContext(ctx, "", "")
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	reader := bufio.NewReader(conn)
	err = req.Write(conn)
	var res *http.Response
	if err == nil {
		res, err = http.ReadResponse(reader, req)
	}
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode != http.StatusOK {
		err = refused(res)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, reader, nil
}

// attached is a container's standard input and output.
type attached struct {
	net.Conn
	output io.Reader
}

func (a *attached) Read(p []byte) (int, error) { return a.output.Read(p) }
