package docker

import (
	"context"
	"io"
	"sync"

	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

func (e *docker) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	r, err := l.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, l.explain("attach to container "+id, err)
	}
	return &attached{Reader: engine.Output(r.Reader, stderr), hijacked: &r.HijackedResponse}, nil
}

// attached is a connection to the standard streams of a container.
type attached struct {
	io.Reader
	hijacked *client.HijackedResponse
	once     sync.Once
}

func (a *attached) Write(b []byte) (int, error) { return a.hijacked.Conn.Write(b) }

// Close ends the container's input, and the connection.
func (a *attached) Close() error {
	a.once.Do(func() {
		_ = a.hijacked.CloseWrite()
		a.hijacked.Close()
	})
	return nil
}
