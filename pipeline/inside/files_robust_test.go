package inside

import (
	"runtime"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// A session's files are remembered from cell to cell. That must not cost the memory of their names.
func TestLongNamesAreNotStored(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	s := pipelinetest.Open(t, p, session.New{})
	pipelinetest.Cell(t, p, s.ID, "import os", nil)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	const files, name = 10_000, 3500
	pipelinetest.Cell(t, p, s.ID, `
for i in range(14):
    os.mkdir('q' * 250); os.chdir('q' * 250)
for n in range(10_000): open('f%d' % n, 'w').close()
os.chdir('/workspace')`, nil)
	if took := heap() - before; took > files*name/2 {
		t.Errorf("%d bytes are kept for %d files, whose names alone have %d", took, files, files*name)
	}
	runtime.KeepAlive(p)
}
