package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// The library's stdio transport is not usable here. It reads lines of any length into memory, has five workers for
// tool calls, runs the sixth in its read loop (where it waits for responses that the loop would have to read), has
// one session for the whole process, decodes ids as float64, treats "id": null as a notification, lets responses
// overtake notifications, and exits on the first line that it can't answer. So this file reads the lines, and
// dispatch gets one valid message at a time.

const (
	// maxCalls bounds concurrent requests. The pipeline's queue bounds programs; this limit bounds memory.
	maxCalls = 4096
	// maxHeld bounds the bytes of concurrent requests beyond the first.
	maxHeld = 256 << 20
	// callGrace is how long calls may continue after stdin has ended: piped input is answered, and clients wait at
	// least two seconds before they kill the server.
	callGrace = 3 * time.Second
	// writeGrace is how long a client that does not read may delay the end.
	writeGrace = 2 * time.Second
)

var errHangUp = errors.New("the client went away")

// conn is the state that the requests of one client share, on any transport.
type conn struct {
	s         *Server
	session   clientSession
	closeWith context.CancelCauseFunc

	calls sync.WaitGroup

	tasks     tasks
	stateless atomic.Bool // a request has set its version in _meta

	held *heldBytes // bytes of running requests and tasks; nil counts none

	mu       sync.Mutex
	requests map[string]*runningRequest // by key
}

// runningRequest is a request without a response.
type runningRequest struct {
	cancel   context.CancelCauseFunc
	unwanted bool // the client cancelled the request and wants no response
}

func newConn(s *Server, held *heldBytes, end context.CancelCauseFunc) *conn {
	c := &conn{s: s, held: held, closeWith: end, requests: map[string]*runningRequest{}}
	c.session.waiting = map[string]chan<- *Message{}
	return c
}

// serveLines reads lines until the input or ctx ends: readLines splits them, handleLine admits each, a goroutine runs
// answerRequest, and dispatch finds the method.
func (c *conn) serveLines(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	to := newStream()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.writeMessages(to, stdout)
	}()

	c.handleLines(ctx, stdin, to)
	ended := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(c.s.CallGrace):
	}
	c.closeWith(errHangUp)
	select {
	case <-ended:
	case <-time.After(c.s.WriteGrace):
		// Responses may block on a client that does not read, and must not block forever.
		to.abandon()
		<-ended
	}
	close(to.messages)
	select {
	case <-written:
	case <-time.After(c.s.WriteGrace):
	}
	return nil
}

// handleLines handles lines until the input or ctx ends. It handles them on the reading goroutine: waking another one
// for each request costs time.
func (c *conn) handleLines(ctx context.Context, stdin io.Reader, to *stream) {
	var mu sync.Mutex // held while a line is handled
	over := false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		readLines(stdin, func(l inputLine) (more bool) {
			mu.Lock()
			defer mu.Unlock()
			if !over && ctx.Err() == nil {
				c.handleLine(ctx, l, to)
			}
			return !over
		})
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	over = true
}

// handleLine handles one line. Each request runs on its own goroutine.
func (c *conn) handleLine(ctx context.Context, l inputLine, to *stream) {
	m, bad := parseLine(l)
	if bad == nil && !c.handleOneWay(m) {
		m.key = string(m.ID)
		if bad = c.admit(m); bad == nil {
			bad = c.startRequest(ctx, m, to, to.send)
		}
	}
	if bad != nil {
		c.sendFault(ctx, bad, to)
	}
}

// handleOneWay handles a message that needs no response. It returns false for requests.
func (c *conn) handleOneWay(m *Message) bool {
	switch {
	case m.Method == nil:
		c.session.deliverResponse(m)
	case m.ID == nil:
		c.handleNotification(m)
	default:
		return false
	}
	return true
}

// sendFault sends a fault from the reading loop, which must not wait for a client that does not read after ctx has
// ended.
func (c *conn) sendFault(ctx context.Context, f *Fault, to *stream) {
	b := f.encode()
	select {
	case to.messages <- b:
		return
	case <-to.unwritten:
		return
	case <-ctx.Done():
	}
	select {
	case to.messages <- b:
	case <-to.unwritten:
	case <-time.After(c.s.WriteGrace):
	}
}

// handleNotification handles a notification. All but cancellations are ignored.
func (c *conn) handleNotification(m *Message) {
	if m.method != string(mcp.MethodNotificationCancelled) {
		return
	}
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	c.cancel(string(p.RequestID), ErrCancelled)
}

// cancel cancels a running request, which then gets no response.
func (c *conn) cancel(key string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.requests[key]; u != nil {
		u.unwanted = true
		u.cancel(why)
	}
}

// startRequest runs an admitted request on a goroutine, or returns a fault. reply is called once with the response,
// or with nil if the client cancelled; notifications and our requests go to the stream.
func (c *conn) startRequest(ctx context.Context, m *Message, to *stream, reply func([]byte)) *Fault {
	m.session, m.stream = &c.session, to
	if c.s.mayBeTask(m) {
		m.task = &task{}
	}
	ctx, u, bad := c.registerRequest(ctx, m)
	if bad != nil {
		return bad
	}
	ctx = c.s.prepareCall(ctx, m)
	answer := func(b []byte) {
		if c.unregisterRequest(m, u) {
			b = nil
		}
		reply(b)
	}
	ended := func() { // before the response, so that the next request sees the effects of this one
		if m.call.Finish != nil {
			m.call.Finish()
		}
		u.cancel(nil)
		c.held.release(int64(m.size))
		if m.release != nil {
			m.release()
		}
	}
	work := func(do func()) {
		go func() {
			defer c.calls.Done()
			do()
		}()
	}
	switch {
	case m.method == string(mcp.MethodInitialize): // later requests need the state that initialize sets
		b := c.answerRequest(ctx, m)
		work(func() { answer(b); ended() })
	case m.task != nil:
		work(func() { c.runTask(ctx, m, u, answer, ended) })
	default:
		work(func() {
			b := c.answerRequest(ctx, m)
			ended()
			answer(b)
		})
	}
	return nil
}

// registerRequest adds a request to the running ones, with a context that a notification may cancel. It refuses when
// there are too many.
func (c *conn) registerRequest(ctx context.Context, m *Message) (context.Context, *runningRequest, *Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.requests[m.key] != nil:
		return ctx, nil, m.Refuse(mcp.INVALID_REQUEST, fmt.Sprintf("a request with id %s is already running", safetext.Clip(string(m.ID), 100)))
	case len(c.requests) >= maxCalls:
		return ctx, nil, m.Refuse(codeBusy, fmt.Sprintf("busy: %d requests are running, try again when some have ended", len(c.requests)))
	case !c.held.reserve(int64(m.size)):
		return ctx, nil, m.Refuse(codeBusy, fmt.Sprintf("busy: requests of %d MB are running, try again when some have ended",
			c.held.taken.Load()>>20))
	}
	u := &runningRequest{}
	ctx, u.cancel = context.WithCancelCause(ctx)
	c.requests[m.key] = u
	c.calls.Add(1)
	return ctx, u, nil
}

// unregisterRequest removes an answered request, and reports whether the client wants no response.
func (c *conn) unregisterRequest(m *Message, u *runningRequest) (mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.requests, m.key)
	return u.unwanted
}

// answerRequest returns the encoded response to a request. A panic is our bug, and fails only this request.
func (c *conn) answerRequest(ctx context.Context, m *Message) (answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			c.s.log.Error("a request panicked", "method", m.method, "panic", r, "stack", string(debug.Stack()))
			answer = m.Refuse(mcp.INTERNAL_ERROR, "internal error: this is a bug in sandboxmcp").encode()
		}
	}()
	if m.isTaskRequest() {
		return c.answerTaskRequest(m)
	}
	return c.dispatch(ctx, m)
}

// writeMessages is the only writer of stdout. It writes the notifications sent before a response ahead of it.
func (c *conn) writeMessages(to *stream, stdout io.Writer) {
	defer to.abandon()
	put := func(b []byte) bool {
		_, err := stdout.Write(append(b, '\n'))
		if err != nil {
			c.s.log.Info("can't write to the client", "error", err)
			c.closeWith(errHangUp)
		}
		return err == nil
	}
	for {
		select {
		case n := <-to.notifications:
			if !put(encodeNotification(n)) {
				return
			}
		case b, ok := <-to.messages:
			for range len(to.notifications) {
				if !put(encodeNotification(<-to.notifications)) {
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
	if err != nil { // our bug: n has strings and numbers only
		return []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"a notification can't be encoded"}}`)
	}
	return b
}
