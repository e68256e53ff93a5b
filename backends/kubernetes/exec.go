package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	gorilla "github.com/gorilla/websocket"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// The channels of an exec by WebSocket: the first byte of each message.
const (
	channelStdin = iota
	channelStdout
	channelStderr
	channelError
)

// The versions of its protocol, the newest first.
var protocols = []string{"v5.channel.k8s.io", "v4.channel.k8s.io"}

// attach connects with the init of a pod, by the standard streams of an attach that it executes in the relay. Clusters before
// 1.29 take SPDY only.
func (c *client) attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	params := url.Values{"container": {relayName}, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"},
		"command": {container.InitPath, role.PodAttach}}
	at := *c.base
	at.Path, at.RawQuery = strings.TrimSuffix(at.Path, "/")+c.in("v1", "pods", id)+"/exec", params.Encode()
	stderr = cmp.Or(stderr, io.Discard)
	conn, err := c.webSocket(ctx, at.String(), stderr)
	if httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) {
		var old error
		if conn, old = c.spdy(ctx, at.String(), stderr); old == nil {
			return conn, nil
		}
		err = fmt.Errorf("%w; and by SPDY: %w", err, old)
	}
	return conn, err
}

// webSocket is an exec by WebSocket.
type webSocket struct {
	*gorilla.Conn
	stderr io.Writer
	rest   []byte // of a message of standard output
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

// Read implements [io.Reader], of standard output. The end of the command is the end, however it comes: the init says
// what became of a program, and the pod what became of the init.
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
			return 0, endOf(message[1:])
		}
	}
	n := copy(b, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// endOf reads how a command ended.
func endOf(text []byte) error {
	var status struct{ Status, Message string }
	if len(text) == 0 || json.Unmarshal(text, &status) != nil || status.Status == "Success" {
		return io.EOF
	}
	return errors.New("the cluster says: " + engine.Plain(status.Message))
}

// Write implements [io.Writer], as do the next.
func (w *webSocket) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.WriteMessage(gorilla.BinaryMessage, append([]byte{channelStdin}, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// SetWriteDeadline bounds a Write: who reads may not.
func (w *webSocket) SetWriteDeadline(t time.Time) error { return w.NetConn().SetWriteDeadline(t) }

// spdyConn is an exec by SPDY.
type spdyConn struct {
	httpstream.Connection
	stdin, stdout httpstream.Stream
}

func (c *client) spdy(ctx context.Context, at string, stderr io.Writer) (io.ReadWriteCloser, error) {
	trip, upgrader, err := spdy.RoundTripperFor(c.rest)
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, at, nil)
	if err != nil {
		return nil, err
	}
	conn, _, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: trip}, q, "v4.channel.k8s.io")
	if err != nil {
		return nil, err
	}
	s := spdyConn{Connection: conn}
	for _, kind := range []string{"error", "stdin", "stdout", "stderr"} { // the order in which the server counts them
		one, err := conn.CreateStream(http.Header{"Streamtype": {kind}})
		if err != nil {
			conn.Close()
			return nil, err
		}
		switch kind {
		case "stdin":
			s.stdin = one
		case "stdout":
			s.stdout = one
		case "stderr":
			go func() { _, _ = io.Copy(stderr, one) }()
		case "error":
			one.Close() // we write nothing to it
		}
	}
	return s, nil
}

// Read implements [io.ReadWriteCloser], as do the next.
func (s spdyConn) Read(b []byte) (int, error)  { return s.stdout.Read(b) }
func (s spdyConn) Write(b []byte) (int, error) { return s.stdin.Write(b) }
func (s spdyConn) Close() error {
	_ = s.stdin.Reset()
	_ = s.stdout.Reset() // or a Read would wait on
	return s.Connection.Close()
}
