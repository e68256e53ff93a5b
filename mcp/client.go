package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// sender describes the client that sends a request.
type sender struct {
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	logs         mcp.LoggingLevel // that it wants to be told of, and higher ones; "" is none
}

// clientSession describes a client, and sends it requests and notifications.
type clientSession struct {
	send          func([]byte)
	notifications chan mcp.JSONRPCNotification
	released      chan struct{} // closed when nobody waits for the client any more
	release       func()

	mu      sync.Mutex
	greeted *sender // what it said in initialize; nil before that
	asked   int64
	waiting map[string]chan<- *message // by the ids of our requests
}

func newClientSession(send func([]byte)) *clientSession {
	s := &clientSession{
		send: send,
		// Who sends a notification does not wait: those that find it full are lost.
		notifications: make(chan mcp.JSONRPCNotification, 1024),
		waiting:       map[string]chan<- *message{},
		released:      make(chan struct{}),
	}
	s.release = sync.OnceFunc(func() { close(s.released) })
	return s
}

func (s *clientSession) initialize(c sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted = &c
}

func (s *clientSession) initialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.greeted != nil
}

func (s *clientSession) setLogLevel(l mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted.logs = l
}

// sender returns the description that the client gave in initialize.
func (s *clientSession) sender() sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.greeted == nil {
		return sender{}
	}
	return *s.greeted
}

// notify sends the client a notification, which is lost if it does not read.
func (s *clientSession) notify(method string, p mcp.NotificationParams) {
	select {
	case s.notifications <- mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{Method: method, Params: p}}:
	default:
	}
}

// elicit asks the client's user, in the way of the protocols before 2026-07-28.
func (s *clientSession) elicit(ctx context.Context, p mcp.ElicitationParams) (*mcp.ElicitationResult, error) {
	result, err := s.ask(ctx, mcp.MethodElicitationCreate, p)
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
func (s *clientSession) ask(ctx context.Context, method mcp.MCPMethod, params any) (json.RawMessage, error) {
	answer := make(chan *message, 1)
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
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  mcp.MCPMethod   `json:"method"`
		Params  any             `json:"params"`
	}{mcp.JSONRPC_VERSION, json.RawMessage(id), method, params})
	if err != nil {
		return nil, err
	}
	s.send(b)
	select {
	case <-ctx.Done():
		s.notify(string(mcp.MethodNotificationCancelled), // so that a dialog goes away
			mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": json.RawMessage(id), "reason": "it is decided, or was given up"}})
		return nil, context.Cause(ctx)
	case m := <-answer:
		if m.Error != nil {
			var e struct{ Message string }
			_ = json.Unmarshal(m.Error, &e) // then there is no message
			return nil, fmt.Errorf("it answers: %s", clip(e.Message, 500))
		}
		return m.Result, nil
	}
}

// answered hands an answer to the request that waits for it. Others are ignored, as late ones must be.
func (s *clientSession) answered(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waiting[string(m.ID)]; w != nil {
		delete(s.waiting, string(m.ID))
		w <- m
	}
}
