package session

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
)

// Guard is the exclusive use of one interpreter of a session, until Release.
type Guard struct {
	*Session
	in   *interpreter
	line func() // leaves its place in line
	once sync.Once
}

// Release unlocks the session. It is safe to call more than once.
func (c *Guard) Release() {
	c.once.Do(func() {
		c.Session.removeUser()
		c.in.sem <- struct{}{}
		c.line()
	})
}

// Run runs a cell.
func (c *Guard) Run(ctx context.Context, cell kernel.Cell) (kernel.Outcome, error) {
	s := c.Session
	s.mu.Lock()
	s.info.Cells++
	if cell.Name == "" {
		cell.Name = fmt.Sprintf("cell %d", s.info.Cells)
	}
	k := c.in.kernel
	s.mu.Unlock()
	return k.Run(ctx, cell)
}

// RecordEnv remembers what Env tells: the variables that a cell was given, without the secrets.
func (c *Guard) RecordEnv(env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		c.cells[name] = value
	}
}

// Kernel is the interpreter, for what is no cell.
func (c *Guard) Kernel() *kernel.Kernel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.kernel
}

// Contained returns the layers that hold the interpreter.
func (c *Guard) Contained() backends.Containment { return c.Kernel().Contained() }

// TakeLossReason describes why the interpreter's state is gone, once for each time that it was lost.
func (c *Guard) TakeLossReason() string {
	s := c.Session
	c.reap()
	s.mu.Lock()
	defer s.mu.Unlock()
	why := c.in.lost
	c.in.lost = ""
	return why
}

// Files returns the files of the workspace after the last cell, not to be changed.
func (c *Guard) Files() map[FileID]SeenFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// RecordFiles remembers what the workspace holds now.
func (c *Guard) RecordFiles(files map[FileID]SeenFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = files
}
