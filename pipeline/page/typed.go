package page

import (
	"context"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// typedCell is a cell that was typed on the page. Most have ended before the browser requests their output.
type typedCell struct {
	by    *visitor // only this visitor gets it
	mu    sync.Mutex
	parts []control.Part
	size  int
	ended chan struct{} // closed at its end
}

// typedTime is the time for which it is remembered.
const typedTime = time.Minute

func (s *typedCell) add(p control.Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size += len(p.Stdout) + len(p.StdoutRaw) + len(p.Stderr) + len(p.StderrRaw); s.size <= maxInline {
		s.parts = append(s.parts, p)
	}
}

// finish records the end of the cell.
func (s *typedCell) finish(res pipeline.Outcome, err error) {
	if res.Value != nil {
		s.add(control.Part{Display: res.Value})
	}
	if res.Error != nil {
		s.add(control.Part{Display: kernel.Bundle{"text/plain": res.Error.Traceback}})
	}
	if err != nil {
		s.add(control.Part{StderrRaw: []byte(err.Error() + "\n")})
	}
}

// sendParts sends the whole output to a browser, unless ctx ends first.
func (s *typedCell) sendParts(ctx context.Context, q *queue) {
	select {
	case <-s.ended:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		_ = q.add(p)
	}
}
