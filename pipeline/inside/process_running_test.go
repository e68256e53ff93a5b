package inside

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// TestFeedBounds: if no program reads an input, little of it waits in memory, however much is sent at once. A program
// that reads gets all of it in order.
func TestFeedBounds(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	f := newFeed()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 16 { // each is given up when there is no room
		if err := f.send(ctx, sent); err == nil {
			t.Error("a million bytes were taken at once")
		}
	}
	waits := 0
	for len(f.parts) > 0 {
		waits += len(<-f.parts)
	}
	if most := (cap(f.parts) + 1) * maxPart; waits > most {
		t.Errorf("%d bytes wait, more than %d", waits, most)
	}
	f = newFeed()
	done := make(chan error, 1)
	go func() {
		err := f.send(t.Context(), sent)
		f.close()
		done <- err
	}()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("read %d bytes of %d, %v", len(got), len(sent), err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := f.send(t.Context(), []byte("late")); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestLongTag: the data that is stored about exited programs is small.
func TestLongTag(t *testing.T) {
	var refused *pipeline.Error
	if _, _, err := Start(t.Context(), new(pipeline.Pipeline), StartProcess{Tag: strings.Repeat("t", maxTag+1)}); !errors.As(err, &refused) ||
		!refused.Denied {
		t.Errorf("got %v", err)
	}
}
