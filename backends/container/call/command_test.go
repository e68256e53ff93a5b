package call

import (
	"bytes"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestLastSize: of many sizes that come before the terminal is there, it gets the last one.
func TestLastSize(t *testing.T) {
	var sent bytes.Buffer
	for n := range byte(200) {
		sent.Write([]byte{controlResize, 0, n, 0, n})
	}
	w := newControls(nil)
	w.receive(&sent)
	if got, want := <-w.resized, (backends.Size{Columns: 199, Rows: 199}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
