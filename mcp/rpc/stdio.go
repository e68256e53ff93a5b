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

// The library's own stdio transport does not do here. It reads lines of any length into memory, has
// five workers for tool calls, runs the sixth in its read loop (where it waits for answers that the
// loop would have to read), has one session for the whole process, decodes ids as float64, takes
// "id": null for a notification, lets answers overtake notifications, and leaves on the first line
// that it can't answer. So the lines are read here, and dispatch gets one sound message at a time.

const (
	// maxCalls are requests under way at once. The pipeline's queue is the bound for programs; this
	// one is for memory.
	maxCalls = 4096
	// maxHeld are bytes of requests under way at once, beyond the first.
	maxHeld = 256 << 20
	// lastCalls is how long calls may take to end by themselves after stdin has: what was piped in
	// with its end behind it is answered, and clients wait at least two seconds before they kill.
	lastCalls = 3 * time.Second
	// lastWrite is how long a client that does not read can hold up the end.
	lastWrite = 2 * time.Second
)

var errHangUp = errors.New("the client went away")

// conn is what requests of one client have in common, whichever way they come.
type conn struct {
	s       *Server
	session clientSession
	end     context.CancelCauseFunc

	calls sync.WaitGroup

	tasks     tasks
	stateless atomic.Bool // a request has named its version

	held *heldBytes // bytes of requests under way, tasks included; nil counts none

	mu    sync.Mutex
	under map[string]*underway // requests under way, by their keys
}

// underway is a request that is not answered yet.
type underway struct {
	cancel context.CancelCauseFunc
	mute   bool // the client does not want the answer any more
}

func newConn(s *Server, held *heldBytes, end context.CancelCauseFunc) *conn {
	c := &conn{s: s, held: held, end: end, under: map[string]*underway{}}
	c.session.waiting = map[string]chan<- *Message{}
	return c
}

// serve reads lines until the input ends or ctx does: readLines frames them, take admits each, a goroutine runs
// handle, and dispatch finds the method.
func (c *conn) serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	to := newStream()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write(to, stdout)
	}()

	c.takeAll(ctx, stdin, to)
	ended := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(c.s.LastCalls):
	}
	c.end(errHangUp)
	select {
	case <-ended:
	case <-time.After(c.s.LastWrite):
		// They may wait to be written to a client that does not read, and must not wait forever.
		to.abandon()
		<-ended
	}
	close(to.messages)
	select {
	case <-written:
	case <-time.After(c.s.LastWrite):
	}
	return nil
}

// takeAll takes lines until there are no more, or ctx ends. They are taken where they are read: each goroutine that a
// request goes through would have to be woken for it.
func (c *conn) takeAll(ctx context.Context, stdin io.Reader, to *stream) {
	var mu sync.Mutex // held while a line is taken
	over := false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		readLines(stdin, func(l line) (more bool) {
			mu.Lock()
			defer mu.Unlock()
			if !over && ctx.Err() == nil {
				c.take(ctx, l, to)
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

// take handles one line. Requests are answered by goroutines of their own.
func (c *conn) take(ctx context.Context, l line, to *stream) {
	m, bad := parse(l)
	if bad == nil && !c.heard(m) {
		m.key = string(m.ID)
		if bad = c.admit(m); bad == nil {
			bad = c.request(ctx, m, to, to.send)
		}
	}
	if bad != nil {
		c.refuse(ctx, bad, to)
	}
}

// heard takes a message that gets no answer, and reports whether it is one.
func (c *conn) heard(m *Message) bool {
	switch {
	case m.Method == nil:
		c.session.answered(m)
	case m.ID == nil:
		c.notified(m)
	default:
		return false
	}
	return true
}

// refuse sends a fault from the loop that reads, which must not wait for a client that does not read
// when ctx has ended.
func (c *conn) refuse(ctx context.Context, f *Fault, to *stream) {
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
	case <-time.After(c.s.LastWrite):
	}
}

// notified handles a notification. Only cancellations mean something to us.
func (c *conn) notified(m *Message) {
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

// cancel cancels a request that is under way, whose answer nobody wants any more.
func (c *conn) cancel(key string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.under[key]; u != nil {
		u.mute = true
		u.cancel(why)
	}
}

// request has a goroutine answer a request that is admitted, or says why not. reply is called once with the answer, or
// with nil if the client wants none any more; what else there is to say of the request goes to a stream.
func (c *conn) request(ctx context.Context, m *Message, to *stream, reply func([]byte)) *Fault {
	m.session, m.to = &c.session, to
	if c.s.mayBeTask(m) {
		m.task = &task{}
	}
	ctx, u, bad := c.enter(ctx, m)
	if bad != nil {
		return bad
	}
	ctx = c.s.prepare(ctx, m)
	answer := func(b []byte) {
		if c.leave(m, u) {
			b = nil
		}
		reply(b)
	}
	ended := func() { // what the request has set is there for those that waited for it, and for the next one
		if m.call.Leave != nil {
			m.call.Leave()
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
	case m.method == string(mcp.MethodInitialize): // what comes behind it must find it done
		b := c.handle(ctx, m)
		work(func() { answer(b); ended() })
	case m.task != nil:
		work(func() { c.runTask(ctx, m, u, answer, ended) })
	default:
		work(func() {
			b := c.handle(ctx, m)
			ended()
			answer(b)
		})
	}
	return nil
}

// enter notes a request as being under way, with a context that a notification may cancel, unless
// there are too many.
func (c *conn) enter(ctx context.Context, m *Message) (context.Context, *underway, *Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.under[m.key] != nil:
		return ctx, nil, m.Refuse(mcp.INVALID_REQUEST, fmt.Sprintf("a request with the id %s is under way already", safetext.Clip(string(m.ID), 100)))
	case len(c.under) >= maxCalls:
		return ctx, nil, m.Refuse(codeBusy, fmt.Sprintf("busy: %d requests are under way, try again when some have ended", len(c.under)))
	case !c.held.reserve(int64(m.size)):
		return ctx, nil, m.Refuse(codeBusy, fmt.Sprintf("busy: requests of %d MB are under way, try again when some have ended", c.held.taken.Load()>>20))
	}
	u := &underway{}
	ctx, u.cancel = context.WithCancelCause(ctx)
	c.under[m.key] = u
	c.calls.Add(1)
	return ctx, u, nil
}

// leave notes that a request is answered, and reports whether the client wants no answer.
func (c *conn) leave(m *Message, u *underway) (mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.under, m.key)
	return u.mute
}

// handle returns the encoded answer to a request. A panic is our bug, and ends only this request.
func (c *conn) handle(ctx context.Context, m *Message) (answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			c.s.log.Error("a request panicked", "method", m.method, "panic", r, "stack", string(debug.Stack()))
			answer = m.Refuse(mcp.INTERNAL_ERROR, "internal error: this is a bug of sandboxmcp").encode()
		}
	}()
	if m.isOfTasks() {
		return c.aboutTask(m)
	}
	return c.dispatch(ctx, m)
}

// write is the only one that writes to stdout. Notifications that were sent before an answer are
// written before it.
func (c *conn) write(to *stream, stdout io.Writer) {
	defer to.abandon()
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
	if err != nil { // our bug: they are made of strings and numbers
		return []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"a notification can't be encoded"}}`)
	}
	return b
}
