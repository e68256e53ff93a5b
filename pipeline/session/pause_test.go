package session

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// TestFilling: simultaneous copies have the room of one together, and a failed copy gives its room back.
func TestFilling(t *testing.T) {
	var all atomic.Int64
	one := &filling{Reader: strings.NewReader(strings.Repeat("x", 6<<20)), all: &all, most: 10 << 20}
	two := &filling{Reader: strings.NewReader(strings.Repeat("x", 6<<20)), all: &all, most: 10 << 20}
	if _, err := io.CopyN(io.Discard, one, 5<<20); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, two)
	if e, is := errors.AsType[*pipeline.Error](err); !is || !e.Denied {
		t.Errorf("more than there is room for: %v", err)
	}
	two.undo()
	if _, err := io.Copy(io.Discard, one); err != nil || all.Load() != 6<<20 {
		t.Errorf("%v, %d bytes", err, all.Load())
	}
}
