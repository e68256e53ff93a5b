package call

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hashicorp/yamux"
)

// copyInput sends the caller's input to a command. A Read of the caller may last longer than the command.
func copyInput(to *yamux.Stream, from io.Reader) {
	io.CopyBuffer(onlyWriter{to}, from, make([]byte, chunk))
	to.Close()
}

// onlyWriter and onlyReader hide methods that io.Copy would use with larger buffers.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// output is a stream of a command that goes to a writer of the caller.
type output struct {
	from  *yamux.Stream
	to    io.Writer
	busy  *atomic.Int32
	done  chan struct{}
	short bool // it did not come to its end
}

// copy moves all output, and continues when the writer fails.
func (o *output) copy(begun <-chan struct{}) {
	defer close(o.done)
	<-begun
	buf := make([]byte, 2*chunk)
	for lost := false; ; {
		n, err := o.from.Read(buf)
		if n > 0 && !lost {
			o.busy.Add(1)
			m, err := o.to.Write(buf[:n])
			o.busy.Add(-1)
			lost = err != nil || m != n
		}
		if err != nil {
			o.short = !errors.Is(err, io.EOF)
			return
		}
	}
}
