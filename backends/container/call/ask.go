package call

import (
	"errors"
	"time"

	"github.com/hashicorp/yamux"
)

// mostStreams is how many streams may be open at once. More are the fault of an init that does not close
// its ends; each holds a window at most.
const mostStreams = 4096

// ask opens a stream and sends a request on it.
func (l *Line) ask(q request) (*yamux.Stream, error) {
	l.mu.Lock()
	session := l.session
	l.mu.Unlock()
	if session.NumStreams() > mostStreams {
		return nil, l.breach("it leaves its streams open")
	}
	stream, err := session.OpenStream()
	if err != nil {
		return nil, l.lost(err)
	}
	stream.SetWriteDeadline(time.Now().Add(slow))
	err = write(stream, q, mostFromServer)
	stream.SetWriteDeadline(time.Time{})
	if err != nil {
		stream.Close()
		if errors.Is(err, errLong) {
			return nil, err
		}
		return nil, l.lost(err)
	}
	return stream, nil
}

// tell asks for something that is answered by one message, which it waits for.
func (l *Line) tell(q request, within time.Duration) (m said, err error) {
	stream, err := l.ask(q)
	if err != nil {
		return m, err
	}
	defer stream.Close()
	stream.SetReadDeadline(time.Now().Add(within))
	if err := read(stream, &m, mostFromInit); errors.Is(err, yamux.ErrTimeout) {
		return m, errors.New("the container's init does not answer")
	} else if err != nil {
		return m, l.lost(err)
	}
	return m, m.Failure.err()
}

// expired is a deadline that has passed: it ends what waits.
var expired = time.Unix(1, 0)
