package call

import (
	"bytes"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestLastSize: of many sizes that come before the terminal is there, it gets the last one.
func TestLastSize(t *testing.T) {
	var said bytes.Buffer
	for n := range byte(200) {
		said.Write([]byte{sayResize, 0, n, 0, n})
	}
	w := newWords(nil)
	w.obey(&said)
	if got, want := <-w.resized, (backends.Size{Columns: 199, Rows: 199}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
