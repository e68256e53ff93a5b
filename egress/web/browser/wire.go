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
	maxPending = 64       // commands that wait for an answer
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

// wire is a connection to a browser: commands and their answers, and events.
type wire struct {
	conn   io.ReadWriteCloser
	events func(message) // called by the reader, so it must not wait for an answer

	out     chan []byte
	mu      sync.Mutex
	next    int64
	pending map[int64]chan message // nil once the browser is gone
	why     error                  // that it is
	gone    chan struct{}
	work    sync.WaitGroup
}

// dial begins to read. Events are given to events until gone is closed.
func dial(conn io.ReadWriteCloser, events func(message)) *wire {
	w := &wire{conn: conn, events: events, out: make(chan []byte, maxPending), pending: map[int64]chan message{}, gone: make(chan struct{})}
	w.work.Go(w.read)
	w.work.Go(w.write)
	return w
}

// close ends the connection, upon which the browser ends itself.
func (w *wire) close() {
	w.conn.Close()
	w.work.Wait()
}

func (w *wire) write() {
	for {
		select {
		case b := <-w.out:
			if _, err := w.conn.Write(b); err != nil {
				w.conn.Close()
				return
			}
		case <-w.gone:
			return
		}
	}
}

func (w *wire) read() {
	defer close(w.gone) // when why is known
	r := bufio.NewReaderSize(w.conn, 64<<10)
	var err error
	for err == nil {
		var m message
		if m, err = next(r); err != nil {
			break
		}
		if m.ID == 0 {
			w.events(m)
			continue
		}
		w.mu.Lock()
		answer := w.pending[m.ID]
		delete(w.pending, m.ID)
		w.mu.Unlock()
		if answer != nil {
			answer <- m // has room for the one that there is
		}
	}
	w.conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = nil
	w.why = ErrLost
	if !errors.Is(err, io.EOF) {
		w.why = fmt.Errorf("%w: %v", ErrLost, err)
	}
}

// next reads a message, which a zero byte ends.
func next(r *bufio.Reader) (m message, err error) {
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

// call sends a command to a session, "" for the browser's own, and reads its answer into result.
func (w *wire) call(ctx context.Context, session, method string, params object, result any) error {
	answer := make(chan message, 1)
	w.mu.Lock()
	if w.pending == nil {
		defer w.mu.Unlock()
		return w.why
	}
	if len(w.pending) >= maxPending {
		defer w.mu.Unlock()
		return fmt.Errorf("%s: the browser answers nothing any more", method)
	}
	w.next++
	id := w.next
	w.pending[id] = answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.pending, id) // of nil it is no harm
		w.mu.Unlock()
	}()
	b, err := encode(message{ID: id, Session: session, Method: method}, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case w.out <- b:
	case <-w.gone:
		return w.why
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
	select {
	case m := <-answer:
		return m.into(method, result)
	case <-w.gone:
		select {
		case m := <-answer: // it came just before the end
			return m.into(method, result)
		default:
			return w.why
		}
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

// encode returns the bytes of a message with these parameters.
func encode(m message, params object) ([]byte, error) {
	p, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	m.Params = p
	b, err := json.Marshal(m)
	return append(b, 0), err
}

func (m message) into(method string, result any) error {
	if m.Error != nil {
		return fmt.Errorf("%s: %w", method, m.Error)
	}
	if result == nil || len(m.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("%s: read the answer: %w", method, err)
	}
	return nil
}

// tell sends a command whose answer nobody waits for. The reader may call it: if the browser does not read its
// commands, the command is dropped.
func (w *wire) tell(session, method string, params object) {
	w.mu.Lock()
	w.next++
	id := w.next
	w.mu.Unlock()
	b, err := encode(message{ID: id, Session: session, Method: method}, params)
	if err != nil {
		return
	}
	select {
	case w.out <- b:
	default:
	}
}

// object holds the parameters of a command.
type object map[string]any

// session is a target of the browser.
type session struct {
	*wire
	id string
}

// call sends a command to the target, and reads its answer into result.
func (s session) call(ctx context.Context, method string, params object, result any) error {
	return s.wire.call(ctx, s.id, method, params, result)
}
