package call

import (
	"encoding/binary"
	"errors"
	"io"
	"log"
	"time"

	"github.com/hashicorp/yamux"
)

// How long one side of a connection waits for the other, and how much it buffers.
const (
	// keepAlive is how often the server asks whether the init is still there, and slow how long one write,
	// or the answer, may take: the init shares what CPU time the program leaves.
	keepAlive = 30 * time.Second
	ioTimeout = 60 * time.Second

	backlog = 256 // streams that may be opened at one moment
	window  = 1 << 20
)

// muxConfig returns the settings that both sides share. A stream may stay half closed: maxStreams bounds the streams
// that an init never closes.
func muxConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = backlog
	c.KeepAliveInterval = keepAlive
	c.ConnectionWriteTimeout = ioTimeout
	c.StreamCloseTimeout = 0
	c.LogOutput, c.Logger = nil, log.New(io.Discard, "", 0)
	return c
}

// newServerSession opens the server's end. A program's output may run ahead by one window for each stream.
func newServerSession(conn io.ReadWriteCloser) (*yamux.Session, error) {
	c := muxConfig()
	c.MaxStreamWindowSize = window
	c.StreamOpenTimeout = ioTimeout
	return yamux.Client(&frameFilter{ReadWriteCloser: &frameWriter{ReadWriteCloser: conn}, now: time.Now}, c)
}

// newInitSession opens the init's end with the smallest windows that yamux has, 256 KiB. Where the kernel reports the
// end of the server it sends no keep-alive: the server may be stopped for as long as its user likes.
func newInitSession(conn io.ReadWriteCloser, local bool) (*yamux.Session, error) {
	c := muxConfig()
	c.StreamOpenTimeout = 0
	if local {
		c.EnableKeepAlive = false
		c.ConnectionWriteTimeout = 24 * time.Hour
	}
	return yamux.Server(&frameWriter{ReadWriteCloser: conn}, c)
}

// A frame of yamux is a head of twelve bytes (version, type, two of flags, four of the stream, four of a
// length), and content behind those of the type data.
const (
	headerSize = 12
	typeData   = 0
	typePing   = 2
	flagSYN    = 1
)

// frameWriter writes a frame's header together with its content, which yamux writes one after the other.
type frameWriter struct {
	io.ReadWriteCloser
	buf []byte // a header whose content comes next; then both
}

func (j *frameWriter) Write(p []byte) (int, error) {
	if len(j.buf) == 0 && len(p) == headerSize && p[1] == typeData && binary.BigEndian.Uint32(p[8:]) > 0 {
		j.buf = append(j.buf, p...)
		return len(p), nil
	}
	if len(j.buf) == 0 {
		return j.ReadWriteCloser.Write(p)
	}
	j.buf = append(j.buf, p...)
	_, err := j.ReadWriteCloser.Write(j.buf)
	j.buf = j.buf[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// frameFilter reads the init's frames and fails at those that would harm yamux: it starts a goroutine for each ping,
// however many come, and lets an init open streams in the server's name.
type frameFilter struct {
	io.ReadWriteCloser
	now       func() time.Time
	header    [headerSize]byte
	got       int    // of head
	remaining uint32 // of a frame's content
	pings     int    // in the second that began at
	since     time.Time
}

// pingRate is how many pings a second an init may send.
const pingRate = 16

func (v *frameFilter) Read(p []byte) (int, error) {
	n, err := v.ReadWriteCloser.Read(p)
	for unread := p[:n]; len(unread) > 0; {
		if v.remaining > 0 {
			m := min(uint64(len(unread)), uint64(v.remaining))
			v.remaining -= uint32(m)
			unread = unread[m:]
			continue
		}
		m := copy(v.header[v.got:], unread)
		v.got += m
		unread = unread[m:]
		if v.got == headerSize {
			v.got = 0
			if err := v.check(); err != nil {
				return 0, err
			}
		}
	}
	return n, err
}

func (v *frameFilter) check() error {
	kind, flags := v.header[1], binary.BigEndian.Uint16(v.header[2:])
	id, length := binary.BigEndian.Uint32(v.header[4:]), binary.BigEndian.Uint32(v.header[8:])
	if kind == typeData {
		v.remaining = length
	}
	if flags&flagSYN == 0 {
		return nil
	}
	if kind != typePing {
		if id%2 == 1 || id == 0 {
			return errors.New("it opened a stream in the server's name")
		}
		return nil
	}
	if now := v.now(); now.Sub(v.since) > time.Second {
		v.since, v.pings = now, 0
	}
	if v.pings++; v.pings > pingRate {
		return errors.New("it pings all the time")
	}
	return nil
}
