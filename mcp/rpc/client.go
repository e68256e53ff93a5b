package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// sender describes the client that sends a request, by what is used of it: the rest takes much more memory than it has
// bytes.
type sender struct {
	Name, version string
	Elicits       bool             // it shows dialogs with forms
	logs          mcp.LoggingLevel // that it wants to be told of, and higher ones; "" is none
}

// describe notes what a client says about itself.
func (s *sender) describe(info mcp.Implementation, capabilities mcp.ClientCapabilities) {
	s.Name, s.version = safetext.Clip(info.Name, 200), safetext.Clip(info.Version, 200)
	can := capabilities.Elicitation
	s.Elicits = can != nil && (can.Form != nil || can.URL == nil)
}

// Client returns who sends a request. A client of the 2026-07-28 protocol describes itself in each request, or not at
// all.
func (m *Message) Client() sender {
	if greeted := m.session.greeted.Load(); greeted != nil && !m.Modern {
		return *greeted
	}
	return m.sender
}

// ClientName returns the name that the client gave itself: for people to look at, nothing more.
func (m *Message) ClientName() string {
	i := m.Client()
	return safetext.Clip(safetext.Model(strings.TrimSpace(i.Name+" "+i.version)), 200)
}

// Warn sends the client's log a line, if it wants it.
func (m *Message) Warn(text string) {
	if !mcp.LoggingLevelWarning.ShouldSendTo(m.Client().logs) {
		return
	}
	// One that can't be sent, since the client does not read, is in the result, too.
	m.to.notify("notifications/message", mcp.NotificationParams{AdditionalFields: map[string]any{
		"level": mcp.LoggingLevelWarning, "logger": "sandboxmcp", "data": safetext.Model(text),
	}})
}

// stream is where messages for a client are sent: standard output, or the response to one HTTP request. One goroutine
// writes them.
type stream struct {
	messages      chan []byte // in the order in which they are written
	notifications chan mcp.JSONRPCNotification
	unwritten     chan struct{} // closed when nobody writes any more, or nobody waits for it
	abandon       func()        // closes it
}

func newStream() *stream {
	s := &stream{
		messages: make(chan []byte), unwritten: make(chan struct{}),
		// Who sends a notification does not wait: those that find it full are lost.
		notifications: make(chan mcp.JSONRPCNotification, 1024),
	}
	s.abandon = sync.OnceFunc(func() { close(s.unwritten) })
	return s
}

// send hands a message to the one that writes. It waits as long as the client does not read.
func (s *stream) send(b []byte) {
	if b == nil {
		return
	}
	select {
	case s.messages <- b:
	case <-s.unwritten:
	}
}

// notify sends the client a notification, which is lost if it does not read.
func (s *stream) notify(method string, p mcp.NotificationParams) {
	select {
	case s.notifications <- mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{Method: method, Params: p}}:
	default:
	}
}

// clientSession is what is known of a client, and what it was asked.
type clientSession struct {
	greeted atomic.Pointer[sender] // what it said in initialize; nil before that

	mu      sync.Mutex
	asked   int64
	waiting map[string]chan<- *Message // by the ids of our requests
}

// Elicit asks the user of the client that sends a request, in the way of the protocols before 2026-07-28.
func (m *Message) Elicit(ctx context.Context, p mcp.ElicitationParams) (*mcp.ElicitationResult, error) {
	result, err := m.session.ask(ctx, m.to, mcp.MethodElicitationCreate, p)
	if err != nil {
		return nil, fmt.Errorf("ask the client's user: %w", err)
	}
	var answer mcp.ElicitationResult
	if err := json.Unmarshal(result, &answer); err != nil {
		return nil, fmt.Errorf("read the client's answer: %w", err)
	}
	return &answer, nil
}

// ask sends a request to the client and waits for the answer.
func (s *clientSession) ask(ctx context.Context, to *stream, method mcp.MCPMethod, params any) (json.RawMessage, error) {
	answer := make(chan *Message, 1)
	s.mu.Lock()
	s.asked++
	id := fmt.Sprint(s.asked)
	s.waiting[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, id)
	}()
	to.send(marshal(mcp.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(json.RawMessage(id)), Request: mcp.Request{Method: string(method)}, Params: params}))
	select {
	case <-ctx.Done():
		to.notify(string(mcp.MethodNotificationCancelled), // so that a dialog goes away
			mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": json.RawMessage(id), "reason": "it is decided, or was given up"}})
		return nil, context.Cause(ctx)
	case m := <-answer:
		if m.Error != nil {
			var e struct{ Message string }
			_ = json.Unmarshal(m.Error, &e) // then there is no message
			return nil, fmt.Errorf("it answers: %s", safetext.Clip(e.Message, 500))
		}
		return m.Result, nil
	}
}

// answered hands an answer to the request that waits for it. Others are ignored, as late ones must be.
func (s *clientSession) answered(m *Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waiting[string(m.ID)]; w != nil {
		delete(s.waiting, string(m.ID))
		w <- m
	}
}
