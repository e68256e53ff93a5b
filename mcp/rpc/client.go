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

// clientInfo describes the client that sends a request. It has only the used fields: the library's type takes far
// more memory.
type clientInfo struct {
	Name, version string
	Elicits       bool             // supports dialogs with forms
	logs          mcp.LoggingLevel // the lowest level that the client wants in its log; "" is none
}

// describe stores the client's description of itself.
func (s *clientInfo) describe(info mcp.Implementation, capabilities mcp.ClientCapabilities) {
	s.Name, s.version = safetext.Clip(info.Name, 200), safetext.Clip(info.Version, 200)
	can := capabilities.Elicitation
	s.Elicits = can != nil && (can.Form != nil || can.URL == nil)
}

// Client returns the sender of a request. A client of the 2026-07-28 protocol describes itself in each request or not
// at all.
func (m *Message) Client() clientInfo {
	if greeted := m.session.greeted.Load(); greeted != nil && !m.Modern {
		return *greeted
	}
	return m.sender
}

// ClientName returns the name that the client gave itself. It is for display only: nothing verifies it.
func (m *Message) ClientName() string {
	i := m.Client()
	return safetext.Clip(safetext.Model(strings.TrimSpace(i.Name+" "+i.version)), 200)
}

// Warn sends a warning to the client's log, if the client wants warnings.
func (m *Message) Warn(text string) {
	if !mcp.LoggingLevelWarning.ShouldSendTo(m.Client().logs) {
		return
	}
	// The result contains the same warning, in case the client does not read its log.
	m.stream.notify("notifications/message", mcp.NotificationParams{AdditionalFields: map[string]any{
		"level": mcp.LoggingLevelWarning, "logger": "sandboxmcp", "data": safetext.Model(text),
	}})
}

// stream carries the messages for a client: to standard output, or into the response to one HTTP request. One
// goroutine writes them.
type stream struct {
	messages      chan []byte // in the order of writing
	notifications chan mcp.JSONRPCNotification
	unwritten     chan struct{} // closed when the writer has stopped, or the receiver is gone
	abandon       func()        // closes unwritten
}

func newStream() *stream {
	s := &stream{
		messages: make(chan []byte), unwritten: make(chan struct{}),
		// Senders of notifications do not wait: a notification is dropped while the channel is full.
		notifications: make(chan mcp.JSONRPCNotification, 1024),
	}
	s.abandon = sync.OnceFunc(func() { close(s.unwritten) })
	return s
}

// send hands a message to the writing goroutine. It blocks while the client does not read.
func (s *stream) send(b []byte) {
	if b == nil {
		return
	}
	select {
	case s.messages <- b:
	case <-s.unwritten:
	}
}

// notify queues a notification, which is dropped if the client does not read.
func (s *stream) notify(method string, p mcp.NotificationParams) {
	select {
	case s.notifications <- mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{Method: method, Params: p}}:
	default:
	}
}

// clientSession holds the client's description and our open requests to it.
type clientSession struct {
	greeted atomic.Pointer[clientInfo] // from initialize; nil before that

	mu      sync.Mutex
	asked   int64
	waiting map[string]chan<- *Message // by request id
}

// Elicit asks the client's user, by the protocols before 2026-07-28.
func (m *Message) Elicit(ctx context.Context, p mcp.ElicitationParams) (*mcp.ElicitationResult, error) {
	result, err := m.session.callClient(ctx, m.stream, mcp.MethodElicitationCreate, p)
	if err != nil {
		return nil, fmt.Errorf("ask the client's user: %w", err)
	}
	var answer mcp.ElicitationResult
	if err := json.Unmarshal(result, &answer); err != nil {
		return nil, fmt.Errorf("read the client's answer: %w", err)
	}
	return &answer, nil
}

// callClient sends a request to the client and waits for the response.
func (s *clientSession) callClient(ctx context.Context, to *stream, method mcp.MCPMethod, params any) (json.RawMessage, error) {
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
	to.send(marshal(mcp.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(json.RawMessage(id)),
		Request: mcp.Request{Method: string(method)}, Params: params}))
	select {
	case <-ctx.Done():
		to.notify(string(mcp.MethodNotificationCancelled), // so that the client closes its dialog
			mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": json.RawMessage(id), "reason": "it is decided, or was given up"}})
		return nil, context.Cause(ctx)
	case m := <-answer:
		if m.Error != nil {
			var e struct{ Message string }
			_ = json.Unmarshal(m.Error, &e) // without a message the text is empty
			return nil, fmt.Errorf("the client answered: %s", safetext.Clip(e.Message, 500))
		}
		return m.Result, nil
	}
}

// deliverResponse hands a response to the request that waits for it. Responses to unknown requests are ignored: they
// may be late.
func (s *clientSession) deliverResponse(m *Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waiting[string(m.ID)]; w != nil {
		delete(s.waiting, string(m.ID))
		w <- m
	}
}
