package call

import (
	"errors"
	"time"

	"github.com/hashicorp/yamux"
)

// maxStreams is how many streams may be open at once. More are the fault of an init that does not close its ends; each
// holds a window at most.
const maxStreams = 4096

// openRequest opens a stream and sends a request on it.
func (c *Conn) openRequest(q request) (*yamux.Stream, error) {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if session.NumStreams() > maxStreams {
		return nil, c.protocolError("it leaves its streams open")
	}
	stream, err := session.OpenStream()
	if err != nil {
		return nil, c.lostError(err)
	}
	stream.SetWriteDeadline(time.Now().Add(ioTimeout))
	err = write(stream, q, maxServerMessage)
	stream.SetWriteDeadline(time.Time{})
	if err != nil {
		stream.Close()
		if errors.Is(err, errLong) {
			return nil, err
		}
		return nil, c.lostError(err)
	}
	return stream, nil
}

// roundTrip sends a request and waits for its one response.
func (c *Conn) roundTrip(q request, within time.Duration) (m response, err error) {
	stream, err := c.openRequest(q)
	if err != nil {
		return m, err
	}
	defer stream.Close()
	stream.SetReadDeadline(time.Now().Add(within))
	if err := read(stream, &m, maxInitMessage); errors.Is(err, yamux.ErrTimeout) {
		return m, errors.New("the container's init does not answer")
	} else if err != nil {
		return m, c.lostError(err)
	}
	return m, m.Failure.err()
}

// expired is a deadline that has passed: it ends a Read or Write that waits.
var expired = time.Unix(1, 0)
