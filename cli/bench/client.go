package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// client speaks the Model Context Protocol over a server's standard streams, as an agent's program does. Calls may be
// made concurrently.
type client struct {
	mu      sync.Mutex
	in      io.Writer
	calls   int
	waiting map[int]chan message
	ended   chan struct{} // closed when nothing more comes
}

// message is an answer.
type message struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"` // it is none: the server asks or tells
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

var errEnded = errors.New("the server has ended")

// connect begins to read answers, until out ends.
func connect(in io.Writer, out io.Reader) *client {
	c := &client{in: in, waiting: map[int]chan message{}, ended: make(chan struct{})}
	go c.read(bufio.NewReaderSize(out, 64<<10))
	return c
}

func (c *client) read(out *bufio.Reader) {
	defer close(c.ended)
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil || m.ID == nil || m.Method != "" {
			continue
		}
		c.mu.Lock()
		answer := c.waiting[*m.ID]
		delete(c.waiting, *m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
}

// initialize opens the conversation.
func (c *client) initialize(ctx context.Context) error {
	_, err := c.ask(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]string{"name": "sandboxmcp bench", "version": "1"},
	})
	if err != nil {
		return err
	}
	return c.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

func (c *client) send(m map[string]any) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err = c.in.Write(append(line, '\n')); err != nil {
		return errEnded
	}
	return nil
}

// ask sends a request and returns its result.
func (c *client) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.calls++
	id := c.calls
	c.waiting[id] = answer
	c.mu.Unlock()
	if err := c.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		return m.Result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ended:
		return nil, errEnded
	}
}

// call calls a tool and reads its structured answer into result. A tool that refuses is an error.
func (c *client) call(ctx context.Context, tool string, arguments map[string]any, result any) error {
	raw, err := c.ask(ctx, "tools/call", map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return err
	}
	var answer struct {
		IsError    bool            `json:"isError"`
		Structured json.RawMessage `json:"structuredContent"`
		Content    []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	if answer.IsError && len(answer.Content) > 0 {
		return fmt.Errorf("%s: %s", tool, OneLine(answer.Content[0].Text))
	}
	if err := json.Unmarshal(answer.Structured, result); err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return nil
}
