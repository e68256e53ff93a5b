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
	line func() // leaves the queue
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

// RecordEnv remembers the variables that a cell received, for Env; they contain no secrets.
func (c *Guard) RecordEnv(env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		c.cells[name] = value
	}
}

// Kernel returns the interpreter, for operations other than cells.
func (c *Guard) Kernel() *kernel.Kernel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.kernel
}

// Contained returns the isolation layers of the interpreter.
func (c *Guard) Contained() backends.Containment { return c.Kernel().Contained() }

// TakeLossReason returns the reason why the interpreter's state was lost, once for each loss.
func (c *Guard) TakeLossReason() string {
	s := c.Session
	c.reap()
	s.mu.Lock()
	defer s.mu.Unlock()
	why := c.in.lost
	c.in.lost = ""
	return why
}

// Files returns the files of the workspace after the last cell. The map must not be modified.
func (c *Guard) Files() map[FileID]SeenFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// RecordFiles remembers the files of the workspace.
func (c *Guard) RecordFiles(files map[FileID]SeenFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = files
}
