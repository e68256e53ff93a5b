package call

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// runCommand executes a command and sends its result.
func (s *service) runCommand(ctx context.Context, control *yamux.Stream, c command) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	controls := newControls(cancel)
	s.work.Go(func() {
		defer cancel()
		controls.receive(control)
	})
	var end response
	streams, parts, err := s.streams(ctx, c)
	if err == nil {
		streams.Interrupt, streams.Terminate = controls.interrupt, controls.terminate
		if c.Terminal != nil {
			streams.Terminal = &backends.Terminal{Size: *c.Terminal, Resized: controls.resized}
		}
		var beginErr error
		streams.Begun = func(held backends.Containment) { beginErr = write(control, response{Begun: &held}, maxInitMessage) }
		var r backends.Result
		r, err = s.sandbox.Exec(ctx, backends.Command{Args: toStrings(c.Args), Env: toStrings(c.Env), Dir: string(c.Dir), Main: c.Main}, streams)
		err = cmp.Or(err, beginErr)
		r.Contained = backends.Containment{} // Begun has reported it
		end.Result = &r
	}
	if end.Failure = failureOf(err); err != nil {
		end.Result = nil
	}
	// The end of each stream must be there before the result is.
	parts.close()
	write(control, end, maxInitMessage)
}

// controls are the server's requests to a command that runs.
type controls struct {
	interrupt, terminate chan struct{}
	resized              chan backends.Size
	cancel               func()
}

func newControls(cancel func()) controls {
	// A program that so many signals did not stop will not care for more, and of sizes the last one counts.
	return controls{make(chan struct{}, 64), make(chan struct{}, 64), make(chan backends.Size, 1), cancel}
}

// receive reads requests until the stream ends.
func (w controls) receive(control io.Reader) {
	for in := bufio.NewReader(control); ; {
		b, err := in.ReadByte()
		if err != nil {
			return
		}
		switch b {
		case controlCancel:
			w.cancel()
		case controlInterrupt:
			trySend(w.interrupt)
		case controlTerminate:
			trySend(w.terminate)
		case controlResize:
			var size backends.Size
			if binary.Read(in, binary.BigEndian, &size) != nil {
				return
			}
			select {
			case <-w.resized: // nobody has it yet
			default:
			}
			w.resized <- size
		}
	}
}

// trySend sends on c if there is room.
func trySend(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// parts are the streams of one command that end with it.
type parts struct {
	stdin   *yamux.Stream
	outputs []*yamux.Stream
	channel *yamux.Stream // until the program has it
}

func (p *parts) close() {
	if p.stdin != nil {
		p.stdin.SetReadDeadline(expired)
		p.stdin.Close()
	}
	for _, o := range p.outputs {
		o.Close()
	}
	if p.channel != nil {
		p.channel.Close()
	}
}

// streams takes the streams of a command's parts.
func (s *service) streams(ctx context.Context, c command) (streams backends.Streams, p *parts, err error) {
	p = &parts{}
	part := func(id uint32) *yamux.Stream {
		if id == 0 || err != nil {
			return nil
		}
		var stream *yamux.Stream
		stream, err = s.takePart(ctx, id)
		return stream
	}
	if p.stdin = part(c.Stdin); p.stdin != nil {
		streams.Stdin = onlyReader{p.stdin}
	}
	if o := part(c.Stdout); o != nil {
		p.outputs, streams.Stdout = append(p.outputs, o), onlyWriter{o}
	}
	if o := part(c.Stderr); o != nil {
		p.outputs, streams.Stderr = append(p.outputs, o), onlyWriter{o}
	}
	if p.channel = part(c.Channel); p.channel != nil {
		stream := p.channel
		streams.Channel = func(program io.ReadWriteCloser) {
			p.channel = nil
			s.work.Go(func() { copyChannel(program, stream) })
		}
	}
	return streams, p, err
}

// copyChannel moves bytes between a program and the server on the command's channel, until the server closes it. It may
// outlast the command, since the program's last bytes must still arrive.
func copyChannel(program io.ReadWriteCloser, stream *yamux.Stream) {
	var words sync.WaitGroup
	words.Go(func() {
		io.CopyBuffer(onlyWriter{stream}, onlyReader{program}, make([]byte, chunk))
		stream.Close()
	})
	buf := make([]byte, chunk)
	io.CopyBuffer(onlyWriter{program}, onlyReader{stream}, buf)
	// The program may be gone, and the server not know yet.
	io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{stream}, buf)
	stream.SetWriteDeadline(expired)
	program.Close()
	words.Wait()
}
