package process

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestDrainToSlow: a slow reader gets all output that the program had written when it ended, even if another
// process still holds the pipe.
func TestDrainToSlow(t *testing.T) {
	p, err := (&Sandbox{Init: &Init{}}).newPipes()
	if err != nil {
		t.Fatal(err)
	}
	defer p.closeProgramEnds()
	var got bytes.Buffer
	taken, late := make(chan struct{}), make(chan struct{})
	p.attach(backends.Streams{Stdout: writerFunc(func(b []byte) {
		if got.Len() == 0 {
			close(taken)
			<-late
		}
		got.Write(b)
	})}, nil)
	io.WriteString(p.theirs[1], "first")
	<-taken
	rest := strings.Repeat("rest", 10_000) // fits into the pipe
	io.WriteString(p.theirs[1], rest)
	time.AfterFunc(300*time.Millisecond, func() { close(late) }) // longer than drain waits
	p.drain(true)
	if got.String() != "first"+rest {
		t.Errorf("%d bytes have arrived, want %d", got.Len(), 5+len(rest))
	}
}
