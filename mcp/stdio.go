package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The library's own stdio transport does not do here. It reads lines of any length into memory, has
// five workers for tool calls, runs the sixth in its read loop (where it waits for answers that the
// loop would have to read), has one session for the whole process, decodes ids as float64, takes
// "id": null for a notification, lets answers overtake notifications, and leaves on the first line
// that it can't answer. So the lines are read here, and MCPServer.HandleMessage gets one sound
// message at a time.

const (
	// maxLine is the longest line that is read, in bytes: files of 20 MB in base64, and some room.
	maxLine = 32 << 20
	// maxCalls are requests under way at once. The pipeline's queue is the bound for programs; this
	// one is for memory.
	maxCalls = 4096
	// maxHeld are bytes of requests under way at once, beyond the first.
	maxHeld = 256 << 20
	// lastCalls is how long calls may take to end by themselves after stdin has: what was piped in
	// with its end behind it is answered, and clients wait at least two seconds before they kill.
	lastCalls = time.Second
	// lastWrite is how long a client that does not read can hold up the end.
	lastWrite = 2 * time.Second
)

var (
	errHangUp    = errors.New("the client went away")
	errCancelled = errors.New("the client cancelled the call")
)

// conn is one client on stdin and stdout.
type conn struct {
	s       *Server
	session *clientSession
	end     context.CancelCauseFunc

	out   chan []byte   // whole lines, for the one that writes
	dead  chan struct{} // closed when nobody writes any more
	calls sync.WaitGroup

	mu    sync.Mutex
	under map[string]*underway // requests under way, by their ids as they were written
	held  int                  // bytes of all of them
	last  int64                // the number that the library knows the newest request by
}

// underway is a request that is not answered yet.
type underway struct {
	cancel context.CancelCauseFunc
	mute   bool // the client does not want the answer any more
}

func newConn(s *Server, end context.CancelCauseFunc) *conn {
	c := &conn{s: s, end: end, out: make(chan []byte), dead: make(chan struct{}), under: map[string]*underway{}}
	c.session = newClientSession(c.send)
	return c
}

func (c *conn) serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	lines := make(chan line)
	go readLines(ctx, stdin, lines)
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write(stdout)
	}()

	c.takeAll(ctx, lines)
	ended := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(lastCalls):
	}
	c.end(errHangUp)
	select {
	case <-ended:
		close(c.out)
	case <-time.After(lastWrite):
		// They may wait to be written to a client that does not read, and must not wait forever.
		c.session.release()
		<-ended
	}
	select {
	case <-written:
	case <-time.After(lastWrite):
	}
	return nil
}

// takeAll takes lines until there are no more, or ctx ends.
func (c *conn) takeAll(ctx context.Context, lines <-chan line) {
	for {
		select {
		case <-ctx.Done():
			return
		case l, ok := <-lines:
			if !ok {
				return
			}
			c.take(ctx, l)
		}
	}
}

// take handles one line. Requests are answered by goroutines of their own.
func (c *conn) take(ctx context.Context, l line) {
	m, bad := parse(l)
	switch {
	case bad != nil:
		c.send(bad.encode())
	case m.Method == nil:
		c.session.answered(m)
	case m.ID == nil:
		c.notified(m)
	case m.method == string(mcp.MethodInitialize):
		c.request(ctx, m, func(f func()) { f() }) // what comes behind it must find it done
	default:
		c.request(ctx, m, func(f func()) { go f() })
	}
}

// notified handles a notification. Only cancellations mean something to us.
func (c *conn) notified(m *message) {
	if m.method != string(mcp.MethodNotificationCancelled) {
		return
	}
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.under[string(p.RequestID)]; u != nil {
		u.mute = true
		u.cancel(errCancelled)
	}
}

func (c *conn) request(ctx context.Context, m *message, start func(func())) {
	if !c.session.Initialized() && !m.early() {
		c.send(m.refuse(mcp.INVALID_REQUEST, "the connection is not initialized: send initialize first").encode())
		return
	}
	u := &underway{}
	ctx, u.cancel = context.WithCancelCause(ctx)
	number, bad := c.enter(m, u)
	if bad != nil {
		u.cancel(nil)
		c.send(bad.encode())
		return
	}
	start(func() {
		defer c.calls.Done()
		defer u.cancel(nil)
		answer := c.handle(ctx, m, number)
		if !c.leave(m, u) {
			c.send(answer)
		}
	})
}

// enter notes a request as being under way, unless there are too many.
func (c *conn) enter(m *message, u *underway) (number int64, bad *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.under[string(m.ID)] != nil:
		return 0, m.refuse(mcp.INVALID_REQUEST, fmt.Sprintf("a request with the id %s is under way already", clip(string(m.ID), 100)))
	case len(c.under) >= maxCalls:
		return 0, m.refuse(codeBusy, fmt.Sprintf("busy: %d requests are under way, try again when some have ended", len(c.under)))
	case len(c.under) > 0 && c.held+m.size > maxHeld:
		return 0, m.refuse(codeBusy, fmt.Sprintf("busy: requests of %d MB are under way, try again when some have ended", c.held>>20))
	}
	c.under[string(m.ID)] = u
	c.held += m.size
	c.last++
	c.calls.Add(1)
	return c.last, nil
}

// leave notes that a request has ended, and reports whether the client wants no answer.
func (c *conn) leave(m *message, u *underway) (mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.under, string(m.ID))
	c.held -= m.size
	return u.mute
}

// handle returns the encoded answer to a request. A panic is our bug, and ends only this request.
func (c *conn) handle(ctx context.Context, m *message, number int64) (answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			c.s.log.Error("a request panicked", "method", m.method, "panic", r, "stack", string(debug.Stack()))
			answer = m.refuse(mcp.INTERNAL_ERROR, "internal error: this is a bug of sandboxmcp").encode()
		}
	}()
	ctx, notes := withNotes(ctx)
	return m.encode(c.s.mcp.HandleMessage(ctx, m.numbered(number)), notes)
}

// send hands a line to the one that writes. It waits as long as the client does not read.
func (c *conn) send(b []byte) {
	if b == nil {
		return
	}
	select {
	case c.out <- b:
	case <-c.dead:
	case <-c.session.released:
	}
}

// write is the only one that writes to stdout. Notifications that were sent before an answer are
// written before it.
func (c *conn) write(stdout io.Writer) {
	defer close(c.dead)
	put := func(b []byte) bool {
		_, err := stdout.Write(append(b, '\n'))
		if err != nil {
			c.s.log.Info("the client can't be written to", "error", err)
			c.end(errHangUp)
		}
		return err == nil
	}
	for {
		select {
		case n := <-c.session.notifications:
			if !put(encodeNotification(n)) {
				return
			}
		case b, ok := <-c.out:
			for range len(c.session.notifications) {
				if !put(encodeNotification(<-c.session.notifications)) {
					return
				}
			}
			if !ok || !put(b) {
				return
			}
		}
	}
}

func encodeNotification(n mcp.JSONRPCNotification) []byte {
	b, err := json.Marshal(n)
	if err != nil { // our bug: they are made of strings and numbers
		return []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"a notification can't be encoded"}}`)
	}
	return b
}

// line is one line of input, or why there is none.
type line struct {
	text []byte
	// long is how many bytes it has when that is more than maxLine; text is its beginning and end.
	long int64
}

// readLines sends lines until in ends or ctx does, and then closes to.
func readLines(ctx context.Context, in io.Reader, to chan<- line) {
	defer close(to)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		l, err := readLine(r)
		if len(l.text) > 0 {
			select {
			case to <- l:
			case <-ctx.Done():
				return
			}
		}
		if err != nil { // io.EOF, or a stdin that can't be read any more: the same to us
			return
		}
	}
}

// readLine reads up to the next newline, which is left out, and never holds more than maxLine.
func readLine(r *bufio.Reader) (l line, err error) {
	const ends = 4 << 10 // of a line that is too long
	for {
		part, err := r.ReadSlice('\n')
		if l.long > 0 {
			l.long += int64(len(part))
			l.text = append(l.text[:ends], lastBytes(append(l.text[ends:], part...), ends)...)
		} else if l.text = append(l.text, part...); len(l.text) > maxLine+1 {
			l.long = int64(len(l.text))
			l.text = append(l.text[:ends:ends], lastBytes(l.text[ends:], ends)...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			l.text = bytes.TrimSpace(bytes.TrimPrefix(l.text, []byte("\ufeff"))) // PowerShell's pipes begin with it
			return l, err
		}
	}
}

func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// message is one JSON-RPC message: a request, a notification, or an answer to a request of ours.
type message struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`

	method string
	size   int
}

// parse reads one line. What is no sound message is answered with the fault.
func parse(l line) (*message, *fault) {
	m := &message{size: len(l.text)}
	broken := func(code int, format string, args ...any) (*message, *fault) {
		return nil, &fault{id: guessID(l.text), code: code, text: fmt.Sprintf(format, args...)}
	}
	switch {
	case l.long > 0:
		return broken(mcp.INVALID_REQUEST, "the message has %d bytes, and %d is the most: put large data into a session piece by piece", l.long, maxLine)
	case !utf8.Valid(l.text):
		return broken(mcp.PARSE_ERROR, "parse error: the line is not UTF-8")
	}
	err := json.Unmarshal(l.text, m)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && l.text[0] == '[':
		return broken(mcp.INVALID_REQUEST, "batches are not supported: send one message a line")
	case errors.As(err, &kind):
		return broken(mcp.INVALID_REQUEST, "the message is not a JSON object")
	case err != nil:
		return broken(mcp.PARSE_ERROR, "parse error: %v", err)
	}
	return m, m.unsound()
}

// unsound says what is wrong with the envelope.
func (m *message) unsound() *fault {
	hasID := len(m.ID) > 0 && (m.ID[0] == '"' || m.ID[0] == '-' || '0' <= m.ID[0] && m.ID[0] <= '9')
	refuse := func(code int, text string) *fault {
		f := &fault{code: code, text: text}
		if hasID {
			f.id = m.ID
		}
		return f
	}
	switch {
	case string(m.Version) != `"2.0"`:
		return refuse(mcp.INVALID_REQUEST, `"jsonrpc" must be "2.0"`)
	case m.ID != nil && !hasID:
		return refuse(mcp.INVALID_REQUEST, `"id" must be a string or a number; leave it out in a notification`)
	case m.Method == nil && m.Result == nil && m.Error == nil:
		return refuse(mcp.INVALID_REQUEST, `"method" is missing`)
	case m.Method == nil:
		return nil
	case json.Unmarshal(m.Method, &m.method) != nil || m.method == "":
		return refuse(mcp.INVALID_REQUEST, `"method" must be a string`)
	case string(m.Params) == "null":
		m.Params = nil
	case m.Params != nil && m.Params[0] != '{':
		return refuse(mcp.INVALID_PARAMS, `"params" must be an object`)
	}
	return nil
}

// early reports whether a request may come before initialize: pings may, and so may those of the
// 2026-07-28 protocol, which has no handshake and says its version in each request.
func (m *message) early() bool {
	switch m.method {
	case string(mcp.MethodInitialize), string(mcp.MethodPing), string(mcp.MethodServerDiscover):
		return true
	}
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	return json.Unmarshal(m.Params, &p) == nil && p.Meta[mcp.MetaKeyProtocolVersion] != nil
}

// numbered is the message as the library gets it: under an id that is ours, since it knows ids as
// float64 only, and those of clients need not fit.
func (m *message) numbered(n int64) json.RawMessage {
	id := strconv.AppendInt(nil, n, 10)
	if m.method == string(mcp.MethodSubscriptionsListen) { // which tells the client its id in notifications
		id = m.ID
	}
	b := make([]byte, 0, len(m.Params)+len(m.Method)+len(id)+64)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = append(append(b, `,"method":`...), m.Method...)
	if m.Params != nil {
		b = append(append(b, `,"params":`...), m.Params...)
	}
	return append(b, '}')
}

// encode writes the library's answer under the client's own id.
func (m *message) encode(answer mcp.JSONRPCMessage, n *notes) []byte {
	switch a := answer.(type) {
	case mcp.JSONRPCResponse:
		b, err := json.Marshal(struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  any             `json:"result"`
		}{mcp.JSONRPC_VERSION, m.ID, a.Result})
		if err == nil {
			return b
		}
		return m.refuse(mcp.INTERNAL_ERROR, "the result can't be encoded: "+err.Error()).encode()
	case mcp.JSONRPCError:
		f := m.refuse(a.Error.Code, a.Error.Message)
		f.data = a.Error.Data
		switch {
		case n.code != 0:
			f.code = n.code
		case f.code == mcp.INVALID_REQUEST || f.code == mcp.PARSE_ERROR:
			f.code = mcp.INVALID_PARAMS // the envelope is sound, so what it can't read are the parameters
		}
		return f.encode()
	}
	return m.refuse(mcp.INTERNAL_ERROR, "there is no answer: this is a bug of sandboxmcp").encode()
}

func (m *message) refuse(code int, text string) *fault {
	return &fault{id: m.ID, code: code, text: text}
}

// codeBusy is of the range that JSON-RPC leaves to servers.
const codeBusy = -32000

// fault is a JSON-RPC error.
type fault struct {
	id   json.RawMessage // nil when the request's is not known
	code int
	text string
	data any
}

func (f *fault) encode() []byte {
	id := f.id
	if id == nil {
		id = json.RawMessage("null")
	}
	type details struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   details         `json:"error"`
	}{mcp.JSONRPC_VERSION, id, details{f.code, f.text, f.data}})
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"an error can't be encoded"}}`)
	}
	return b
}

// notes are what a handler says about its answer past the library, which knows one code for all
// errors of handlers.
type notes struct {
	code int    // of the JSON-RPC error; 0 leaves it as it is
	task string // the id of the task that the request has become
}

type notesKey struct{}

func withNotes(ctx context.Context) (context.Context, *notes) {
	n := &notes{}
	return context.WithValue(ctx, notesKey{}, n), n
}

// notesFrom returns the request's notes, or some that nobody reads.
func notesFrom(ctx context.Context) *notes {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		return n
	}
	return &notes{}
}

var _ server.ClientSession = (*clientSession)(nil)
