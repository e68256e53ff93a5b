package mcp

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
)

// The library's own stdio transport does not do here. It reads lines of any length into memory, has
// five workers for tool calls, runs the sixth in its read loop (where it waits for answers that the
// loop would have to read), has one session for the whole process, decodes ids as float64, takes
// "id": null for a notification, lets answers overtake notifications, and leaves on the first line
// that it can't answer. So the lines are read here, and dispatch gets one sound message at a time.

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
	lastCalls = 3 * time.Second
	// lastWrite is how long a client that does not read can hold up the end.
	lastWrite = 2 * time.Second
)

var (
	errHangUp    = errors.New("the client went away")
	errCancelled = errors.New("the client cancelled the call")
)

// conn is the connection of one client on stdin and stdout.
type conn struct {
	s       *Server
	session *clientSession
	end     context.CancelCauseFunc

	out     chan []byte   // whole lines, for the one that writes
	dead    chan struct{} // closed when nobody writes any more
	calls   sync.WaitGroup
	order   callOrder
	workers workers

	tasks     tasks
	stateless bool // a request has named its version; for the loop that reads

	mu    sync.Mutex
	under map[string]*underway // requests under way, by their ids as they were written
	held  int                  // bytes of all of them, and of tasks under way
}

// underway is a request that is not answered yet.
type underway struct {
	cancel context.CancelCauseFunc
	mute   bool // the client does not want the answer any more
}

func newConn(s *Server, end context.CancelCauseFunc) *conn {
	c := &conn{s: s, end: end, out: make(chan []byte), dead: make(chan struct{}), under: map[string]*underway{}}
	c.workers = newWorkers(c.dead)
	c.session = newClientSession(c.send)
	return c
}

// serve reads lines until the input ends or ctx does: readLines frames them, take orders and admits each, a worker runs
// handle, and dispatch finds the method.
func (c *conn) serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write(stdout)
	}()

	c.takeAll(ctx, stdin)
	ended := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(c.s.lastCalls):
	}
	c.end(errHangUp)
	select {
	case <-ended:
	case <-time.After(c.s.lastWrite):
		// They may wait to be written to a client that does not read, and must not wait forever.
		c.session.release()
		<-ended
	}
	close(c.out)
	select {
	case <-written:
	case <-time.After(c.s.lastWrite):
	}
	return nil
}

// takeAll takes lines until there are no more, or ctx ends. They are taken where they are read: each goroutine that a request
// goes through would have to be woken for it.
func (c *conn) takeAll(ctx context.Context, stdin io.Reader) {
	var mu sync.Mutex // held while a line is taken
	over := false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		readLines(stdin, func(l line) (more bool) {
			mu.Lock()
			defer mu.Unlock()
			if !over && ctx.Err() == nil {
				c.take(ctx, l)
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
func (c *conn) take(ctx context.Context, l line) {
	m, bad := parse(l)
	switch {
	case bad != nil:
		c.refuse(ctx, bad)
	case m.Method == nil:
		c.session.answered(m)
	case m.ID == nil:
		c.notified(m)
	default:
		c.request(ctx, m)
	}
}

// refuse sends a fault from the loop that reads, which must not wait for a client that does not read
// when ctx has ended.
func (c *conn) refuse(ctx context.Context, f *fault) {
	b := f.encode()
	select {
	case c.out <- b:
		return
	case <-c.dead:
		return
	case <-ctx.Done():
	}
	select {
	case c.out <- b:
	case <-c.dead:
	case <-time.After(c.s.lastWrite):
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

// request admits a request, and has a worker answer it.
func (c *conn) request(ctx context.Context, m *message) {
	bad := c.admit(m)
	if bad == nil {
		bad = c.s.asTask(m)
	}
	if bad != nil {
		c.refuse(ctx, bad)
		return
	}
	ctx, u, bad := c.enter(ctx, m)
	if bad != nil {
		c.refuse(ctx, bad)
		return
	}
	ctx, leave := c.order.take(ctx, m)
	ctx = withNotes(ctx, c.session, m)
	answer := func(b []byte) {
		if !c.leave(m, u) {
			c.send(b)
		}
	}
	ended := func() { // what the request has set is there for those that waited for it, and for the next one
		leave()
		u.cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held -= m.size
	}
	work := func(do func()) {
		c.workers.do(func() {
			defer c.calls.Done()
			do()
		})
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
}

// enter notes a request as being under way, with a context that a notification may cancel, unless
// there are too many.
func (c *conn) enter(ctx context.Context, m *message) (context.Context, *underway, *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.under[string(m.ID)] != nil:
		return ctx, nil, m.refuse(mcp.INVALID_REQUEST, fmt.Sprintf("a request with the id %s is under way already", clip(string(m.ID), 100)))
	case len(c.under) >= maxCalls:
		return ctx, nil, m.refuse(codeBusy, fmt.Sprintf("busy: %d requests are under way, try again when some have ended", len(c.under)))
	case c.held > 0 && c.held+m.size > maxHeld:
		return ctx, nil, m.refuse(codeBusy, fmt.Sprintf("busy: requests of %d MB are under way, try again when some have ended", c.held>>20))
	}
	u := &underway{}
	ctx, u.cancel = context.WithCancelCause(ctx)
	c.under[string(m.ID)] = u
	c.held += m.size
	c.calls.Add(1)
	return ctx, u, nil
}

// leave notes that a request is answered, and reports whether the client wants no answer.
func (c *conn) leave(m *message, u *underway) (mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.under, string(m.ID))
	return u.mute
}

// handle returns the encoded answer to a request. A panic is our bug, and ends only this request.
func (c *conn) handle(ctx context.Context, m *message) (answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			c.s.log.Error("a request panicked", "method", m.method, "panic", r, "stack", string(debug.Stack()))
			answer = m.refuse(mcp.INTERNAL_ERROR, "internal error: this is a bug of sandboxmcp").encode()
		}
	}()
	if m.ofTasks() {
		return c.aboutTask(ctx, m)
	}
	return c.dispatch(ctx, m)
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

// notes describe a request besides its parameters.
type notes struct {
	session *clientSession
	modern  *sender     // nil is that the session's sends it
	task    bool        // the call is, or may become, a task: its client's user can't be asked meanwhile
	quiet   atomic.Bool // nothing more may be sent about the request
}

type notesKey struct{}

func withNotes(ctx context.Context, c *clientSession, m *message) context.Context {
	n := &notes{session: c}
	if m.modern {
		n.modern = &m.sender
	}
	return context.WithValue(ctx, notesKey{}, n)
}

// notesFrom returns the request's notes, or some that nobody reads.
func notesFrom(ctx context.Context) *notes {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		return n
	}
	return &notes{session: &clientSession{}}
}

// isModern reports whether a request is of the 2026-07-28 protocol.
func isModern(ctx context.Context) bool { return notesFrom(ctx).modern != nil }

// senderOf returns the client that sends a request. A client of the 2026-07-28 protocol describes itself in each request, or not at all.
func senderOf(ctx context.Context) sender {
	n := notesFrom(ctx)
	if n.modern != nil {
		return *n.modern
	}
	return n.session.sender()
}
