package call

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Timeouts and buffer sizes of a connection.
const (
	// keepAlive is the interval of pings, and ioTimeout bounds one write or ping answer: the init gets only the CPU
	// time that the program leaves.
	keepAlive = 30 * time.Second
	ioTimeout = 60 * time.Second

	window     = 256 << 10 // bytes by which a stream may be ahead of its reader
	maxStreams = 4096      // concurrent streams; each holds one window at most
	chunk      = 32 << 10  // bytes of one copy, and of one frame
)

// newServer returns the init's HTTP server. Unread streams must not block others, so the connection's window
// exceeds the windows of all connections that a program may have. A local connection has no pings, since the kernel
// reports the end of the other side, and a user may stop our server for any time.
func newServer(h http.Handler, local bool) *http.Server {
	c := &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReadFrameSize: chunk,
		MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: 2 * maxConns * window,
	}
	if !local {
		c.SendPingTimeout, c.PingTimeout, c.WriteByteTimeout = keepAlive, ioTimeout, ioTimeout
	}
	return &http.Server{Handler: h, HTTP2: c, MaxHeaderBytes: maxServerMessage + 1<<10}
}

// clientSettings returns the settings of the server's end.
func clientSettings() *http.HTTP2Config {
	return &http.HTTP2Config{
		StrictMaxConcurrentRequests: true, MaxReadFrameSize: 2 * chunk, MaxReceiveBufferPerStream: window,
		SendPingTimeout: keepAlive, PingTimeout: ioTimeout, WriteByteTimeout: ioTimeout,
	}
}

// onlyWriter and onlyReader hide methods that io.Copy would use with larger buffers.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// copyAll copies until the end, with one small buffer.
func copyAll(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(onlyWriter{to}, onlyReader{from}, make([]byte, chunk))
	return err
}

func isConnEnd(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe)
}
