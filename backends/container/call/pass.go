package call

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// passing copies one output stream of a command to the caller's writer.
type passing struct {
	*running
	ctx    context.Context // of the command's requests
	to     io.Writer
	stderr bool
	lost   bool           // the writer has failed, or there is none
	skip   *backends.Skip // requested from the init
	over   chan struct{}  // closed when the stream has ended
}

// passOutput copies output to the caller's writer, and continues to read if that fails.
func (r *running) passOutput(ctx context.Context, to io.Writer, stderr bool, from *reply) error {
	defer from.Close()
	p := &passing{running: r, ctx: ctx, to: to, stderr: stderr, lost: to == nil}
	err := p.copyParts(bufio.NewReaderSize(from, chunk))
	if p.skip != nil {
		p.countSkipped(0)
	}
	switch {
	case err == io.EOF:
		return nil
	case from.err != nil: // the connection has ended
		return from.err
	}
	return r.conn.lostError(err)
}

func (p *passing) copyParts(in io.Reader) error {
	buf := make([]byte, chunk)
	for {
		left, n, isReport, err := readPart(in)
		switch {
		case err != nil:
			return err
		case isReport && (p.skip == nil || n < 0 || n > math.MaxInt64/4):
			return errors.New("its init broke the protocol: an unrequested report")
		case isReport:
			p.countSkipped(n)
			continue
		}
		for left > 0 {
			n, err := in.Read(buf[:min(left, len(buf))])
			left -= n
			p.write(buf[:n])
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
		}
	}
}

// write writes a part, and requests a skip of output that the writer does not need. The writer's time is the
// caller's.
func (p *passing) write(b []byte) {
	p.busy.Add(1)
	defer p.busy.Add(-1)
	if !p.lost && len(b) > 0 {
		n, err := p.to.Write(b)
		p.lost = err != nil || n != len(b)
	}
	p.conn.pace.Load().wait(len(b), p.conn.Done())
	if p.skip != nil {
		return
	}
	if s, is := p.to.(backends.Sparing); p.lost {
		p.requestSkip(&backends.Skip{Done: func(int64) {}})
	} else if is {
		p.requestSkip(s.Spare())
	}
}

// requestSkip asks the init to skip output until the writer ends the skip.
func (p *passing) requestSkip(s *backends.Skip) {
	if s == nil {
		return
	}
	p.skip, p.over = s, make(chan struct{})
	over := p.over
	p.conn.work.Go(func() {
		q := request{Command: p.number, Skip: &skip{p.stderr, s.Until, s.Keep}}
		q.Op = opSkip
		if _, err := p.conn.roundTrip(p.ctx, q, p.conn.initTimeout); err != nil {
			return
		}
		select {
		case <-s.Stop:
			q.Op = opCarry
			_, _ = p.conn.roundTrip(p.ctx, q, p.conn.initTimeout)
		case <-over:
		}
	})
}

// countSkipped reports the bytes skipped by the init to the writer.
func (p *passing) countSkipped(n int64) {
	close(p.over)
	s := p.skip
	p.skip = nil
	s.Done(n)
}
