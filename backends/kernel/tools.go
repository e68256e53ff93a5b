package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Tool is a function that code can import from the module tools, and that a caller outside the sandbox performs.
type Tool struct {
	Name   string   `json:"name"`
	About  string   `json:"about"`
	Params []string `json:"params"` // names of its arguments, in Python's positional order
}

// Bounds of tool calls.
const (
	MaxArguments = 256 << 10 // bytes of a call's arguments as JSON
	MaxAnswer    = 16 << 20  // bytes of an answer as JSON
	maxCalls     = 1000      // per cell
	// The drivers allow 128 calls at a time. An answered call may count here for a moment longer.
	maxCallsNow = 256
)

// toolAnswer is sent to a driver for a call.
type toolAnswer struct {
	Op    string          `json:"op"` // "answer", first, where the drivers look for it
	Call  int64           `json:"call"`
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

// calls performs the calls of one cell.
type calls struct {
	kernel *Kernel
	do     func(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)
	ctx    context.Context // for all calls
	cancel context.CancelFunc
	slots  chan struct{}
	made   int
	all    sync.WaitGroup
	write  sync.Mutex
}

// newCalls returns the calls of a cell; cancelAll ends them.
func (k *Kernel) newCalls(ctx context.Context, c Cell) *calls {
	ctx, cancel := context.WithCancel(ctx)
	return &calls{kernel: k, do: c.Call, ctx: ctx, cancel: cancel, slots: make(chan struct{}, maxCallsNow)}
}

// startCall performs a call in its own goroutine. It kills an interpreter that makes more calls at a time than its
// driver allows.
func (c *calls) startCall(r reply) {
	select {
	case c.slots <- struct{}{}:
	default:
		c.kernel.kill()
		return
	}
	c.made++
	made := c.made
	c.all.Go(func() {
		defer func() { <-c.slots }()
		answer := toolAnswer{Op: "answer", Call: r.Call}
		value, err := c.callTool(r, made)
		if answer.Value = value; err != nil {
			answer.Value, answer.Error = nil, err.Error()
		}
		if c.ctx.Err() != nil {
			return // the driver has already given the code an error
		}
		frame, err := encodeFrame(answer)
		if err != nil {
			frame, _ = encodeFrame(toolAnswer{Op: "answer", Call: r.Call, Error: "the answer can't be passed on: " + err.Error()})
		}
		c.write.Lock()
		defer c.write.Unlock()
		c.kernel.channel.Write(frame) // if it fails, the interpreter has ended
	})
}

// callTool returns a call's answer.
func (c *calls) callTool(r reply, made int) (json.RawMessage, error) {
	switch {
	case c.do == nil:
		return nil, errors.New("tools can't be called here")
	case made > maxCalls:
		return nil, fmt.Errorf("the code has called tools %d times, the maximum of one cell", maxCalls)
	case len(r.Args) > MaxArguments:
		return nil, fmt.Errorf("the arguments take %d bytes as JSON, more than %d", len(r.Args), MaxArguments)
	}
	value, err := c.do(c.ctx, r.Name, r.Args)
	switch {
	case err != nil:
		return nil, err
	case len(value) > MaxAnswer:
		return nil, fmt.Errorf("the answer takes %d bytes as JSON, more than %d", len(value), MaxAnswer)
	case !json.Valid(value):
		return nil, errors.New("the answer is not JSON")
	}
	return value, nil
}

// cancelAll cancels the running calls. The returned channel is closed when all of them have ended.
func (c *calls) cancelAll() <-chan struct{} {
	c.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.all.Wait()
	}()
	return ended
}
