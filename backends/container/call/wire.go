package call

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// How long one side of a connection waits for the other, and how much it buffers.
const (
	// keepAlive is how often a side asks whether the other is still there, and ioTimeout how long one write, or the
	// answer, may take: the init shares what CPU time the program leaves.
	keepAlive = 30 * time.Second
	ioTimeout = 60 * time.Second

	window     = 256 << 10 // bytes that a stream may run ahead of its reader
	maxStreams = 4096      // open at once; each holds a window at most
	chunk      = 32 << 10  // bytes of one copy, and of one frame
)

// newServer returns the server that the init is. Streams that nobody reads must hold up no other: so the connection's
// window is that of all connections that a program may have, and more. Where the kernel reports the end of the other
// side, no sign of life is asked for: our server may be stopped for as long as its user likes.
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

func isEnd(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
