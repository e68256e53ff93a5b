package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	maxMessage = 64 << 20 // bytes: a picture or a DOM, in JSON
	maxQueue   = 64       // commands that the browser has not read
)

// message is a message in either direction.
type message struct {
	ID      int64           `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

// failure is a command that the browser refused.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (f *failure) Error() string { return "the browser says: " + printable(f.Message, 200) }

// ErrLost is the error for a browser that has ended by itself.
var ErrLost = errors.New("the browser has ended")

// wire is a connection to a browser: commands and their answers, and events. One goroutine reads and one writes; events
// are handled by the caller's goroutine while it waits.
type wire struct {
	conn   io.ReadWriteCloser
	events func(message)

	last  int64    // command's id
	queue [][]byte // commands to send
	out   chan []byte
	in    chan message  // closed at the end of the browser
	why   error         // reason of the end
	over  chan struct{} // closed by close
	work  sync.WaitGroup
}

// newWire starts reading. It passes events to the callback while a caller waits.
func newWire(conn io.ReadWriteCloser, events func(message)) *wire {
	w := &wire{conn: conn, events: events, out: make(chan []byte), in: make(chan message), over: make(chan struct{})}
	w.work.Go(w.readLoop)
	w.work.Go(w.writeLoop)
	return w
}

// close closes the connection, which ends the browser.
func (w *wire) close() {
	close(w.over)
	w.conn.Close()
	w.work.Wait()
}

func (w *wire) writeLoop() {
	for {
		select {
		case b := <-w.out:
			if _, err := w.conn.Write(b); err != nil {
				w.conn.Close()
				return
			}
		case <-w.over:
			return
		}
	}
}

func (w *wire) readLoop() {
	defer close(w.in)
	defer w.conn.Close()
	r := bufio.NewReaderSize(w.conn, 64<<10)
	for {
		m, err := readMessage(r)
		if err != nil {
			w.why = ErrLost
			if !errors.Is(err, io.EOF) {
				w.why = fmt.Errorf("%w: %v", ErrLost, err)
			}
			return
		}
		select {
		case w.in <- m:
		case <-w.over:
			return
		}
	}
}

// readMessage reads a message up to its terminating zero byte.
func readMessage(r *bufio.Reader) (m message, err error) {
	var all []byte
	for {
		part, err := r.ReadSlice(0)
		if len(all)+len(part) > maxMessage {
			return m, fmt.Errorf("a message is longer than %d MB", maxMessage>>20)
		}
		all = append(all, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return m, err
		}
	}
	if err := json.Unmarshal(all[:len(all)-1], &m); err != nil {
		return m, fmt.Errorf("read a message: %w", err)
	}
	return m, nil
}

// send queues a command to a session, "" for the browser's own, and returns its id.
func (w *wire) send(session, method string, params object) int64 {
	p, err := json.Marshal(params)
	w.last++
	b, failed := json.Marshal(message{ID: w.last, Session: session, Method: method, Params: p})
	if err == nil && failed == nil { // of strings and numbers both are nil
		w.queue = append(w.queue, append(b, 0))
	}
	return w.last
}

// sendNoReply queues a command without waiting for its answer. It drops the command if the queue is full.
func (w *wire) sendNoReply(session, method string, params object) {
	if len(w.queue) < maxQueue {
		w.send(session, method, params)
	}
}

// await sends commands and handles events until a command is answered; id 0 waits for ctx.
func (w *wire) await(ctx context.Context, id int64) (message, error) {
	for {
		var out chan<- []byte
		var first []byte
		if len(w.queue) > 0 {
			out, first = w.out, w.queue[0]
		}
		select {
		case out <- first:
			w.queue = w.queue[1:]
		case m, ok := <-w.in:
			switch {
			case !ok:
				return m, w.why
			case m.ID == 0:
				w.events(m)
			case m.ID == id:
				return m, nil
			}
		case <-ctx.Done():
			return message{}, context.Cause(ctx)
		}
	}
}

// decodeResult reads the answer to a command into result.
func (m message) decodeResult(result any) error {
	if m.Error != nil {
		return m.Error
	}
	if result == nil || len(m.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// object holds the parameters of a command.
type object map[string]any

// session is a target of the browser; its id is "" for the browser itself.
type session struct {
	*wire
	id string
}

// call sends a command to the target, and reads its answer into result.
func (s session) call(ctx context.Context, method string, params object, result any) error {
	m, err := s.await(ctx, s.send(s.id, method, params))
	if errors.Is(err, ErrLost) {
		return err
	}
	if err == nil {
		err = m.decodeResult(result)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}
