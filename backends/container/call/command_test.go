package call

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestLastSize: of many sizes that arrive before the terminal exists, the last applies.
func TestLastSize(t *testing.T) {
	j := &job{resized: make(chan backends.Size, 1)}
	for n := range uint16(200) {
		j.resize(backends.Size{Columns: n, Rows: n})
	}
	if got, want := <-j.resized, (backends.Size{Columns: 199, Rows: 199}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
