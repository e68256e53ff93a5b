package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	gorilla "github.com/gorilla/websocket"
	"k8s.io/client-go/transport/websocket"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// Channels of an exec over WebSocket: the first byte of each message.
const (
	channelStdin = iota
	channelStdout
	channelStderr
	channelError
)

// Versions of the exec protocol, newest first.
var protocols = []string{"v5.channel.k8s.io", "v4.channel.k8s.io"}

// attach connects to a pod's init: it executes the relay's attach command, whose standard streams are the
// connection.
func (c *client) attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	params := url.Values{"container": {relayName}, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"},
		"command": {container.InitPath, role.PodAttach}}
	at := *c.base
	at.Path, at.RawQuery = strings.TrimSuffix(at.Path, "/")+c.pathOf("v1", "pods", id)+"/exec", params.Encode()
	return c.webSocket(ctx, at.String(), cmp.Or(stderr, io.Discard))
}

// webSocket is an exec over WebSocket.
type webSocket struct {
	*gorilla.Conn
	stderr io.Writer
	rest   []byte // unread part of a message of standard output
	mu     sync.Mutex
}

func (c *client) webSocket(ctx context.Context, at string, stderr io.Writer) (io.ReadWriteCloser, error) {
	trip, holder, err := websocket.RoundTripperFor(c.rest)
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(trip, holder, q, protocols...)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	return &webSocket{Conn: conn, stderr: stderr}, nil
}

// maxMessage bounds one message of an exec, in bytes. Nodes send up to 32 KiB.
const maxMessage = 1 << 20

// Read implements [io.Reader] for standard output. Every end of the command is io.EOF: the init reports a program's
// exit, and the pod the init's.
func (w *webSocket) Read(b []byte) (int, error) {
	for len(w.rest) == 0 {
		_, message, err := w.ReadMessage()
		switch {
		case gorilla.IsCloseError(err, gorilla.CloseNormalClosure, gorilla.CloseGoingAway):
			return 0, io.EOF
		case err != nil:
			return 0, err
		case len(message) == 0:
		case message[0] == channelStdout:
			w.rest = message[1:]
		case message[0] == channelStderr:
			_, _ = w.stderr.Write(message[1:])
		case message[0] == channelError:
			return 0, commandError(message[1:])
		}
	}
	n := copy(b, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// commandError decodes a command's exit status.
func commandError(text []byte) error {
	var status struct{ Status, Message string }
	if len(text) == 0 || json.Unmarshal(text, &status) != nil || status.Status == "Success" {
		return io.EOF
	}
	return errors.New("the cluster says: " + engine.OneLine(status.Message))
}

// Write implements [io.Writer]. The methods below implement the rest of a stream.
func (w *webSocket) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.WriteMessage(gorilla.BinaryMessage, append([]byte{channelStdin}, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// SetWriteDeadline bounds Write, since the reader may stop reading.
func (w *webSocket) SetWriteDeadline(t time.Time) error { return w.NetConn().SetWriteDeadline(t) }
