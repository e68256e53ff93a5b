package call

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// listing remembers the files that an init has listed, so that the very same file can be opened. Files that were
// dropped, because a program has made too many, are searched for again.
type listing struct {
	mu    sync.Mutex
	last  uint64
	first uint64 // that is still known
	known map[uint64]backends.File
	cost  int // bytes, about
}

// maxListingSize bounds an init's memory for files, in bytes; a file takes fileCost and twice its name.
const (
	maxListingSize = 8 << 20
	fileCost       = 1 << 10
)

// add remembers a file and returns its number.
func (l *listing) add(f backends.File) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[uint64]backends.File{}
		l.first = 1
	}
	l.last++
	l.known[l.last] = f
	for l.cost += fileCost + 2*len(f.Name); l.cost > maxListingSize; l.first++ {
		l.cost -= fileCost + 2*len(l.known[l.first].Name)
		delete(l.known, l.first)
	}
	return l.last
}

func (l *listing) get(number uint64) (backends.File, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.known[number]
	return f, ok
}

var errStopped = errors.New("nobody listens")

// listFiles sends an entry for each file of the workspace.
func (s *service) listFiles(ctx context.Context, stream *yamux.Stream) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var seen atomic.Int64
	more := make(chan struct{}, 1)
	s.work.Go(func() {
		defer cancel()
		defer stream.SetWriteDeadline(expired)
		for b := make([]byte, 1); ; {
			if _, err := stream.Read(b); err != nil || b[0] != walkMore {
				return
			}
			seen.Add(ackEvery)
			select {
			case more <- struct{}{}:
			default:
			}
		}
	})
	to := bufio.NewWriterSize(onlyWriter{stream}, chunk)
	sent := int64(0)
	skipped, err := s.sandbox.Files().Each(ctx, func(f backends.File) error {
		for sent-seen.Load() >= maxUnacknowledged {
			if err := to.Flush(); err != nil {
				return err
			}
			select {
			case <-more:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		sent++
		l := fileEntry{[]byte(f.Name), f.Size, f.Mode, f.Changed.Unix(), int64(f.Changed.Nanosecond()), s.listing.add(f)}
		return write(to, response{File: &l}, maxInitMessage)
	})
	if write(to, response{Done: true, Skipped: skipped, Failure: failureOf(err)}, maxInitMessage) == nil {
		to.Flush()
	}
}

// openFile sends the content of a file that was listed.
func (s *service) openFile(ctx context.Context, stream *yamux.Stream, l fileEntry) {
	r, err := s.findFile(ctx, l)
	if write(stream, response{Failure: failureOf(err)}, maxInitMessage) != nil || err != nil {
		if err == nil {
			r.Close()
		}
		return
	}
	defer r.Close()
	s.work.Go(func() {
		io.Copy(io.Discard, onlyReader{stream})
		stream.SetWriteDeadline(expired) // nobody reads any more
	})
	to := newChunkWriter(stream, chunk)
	buf := make([]byte, max(1, min(l.Size+1, chunk)))
	if _, err := io.CopyBuffer(onlyWriter{to}, onlyReader{r}, buf); err != nil {
		to.fail(err)
		return
	}
	to.end()
}

// findFile opens a file that was listed, also one that was dropped since: then its size, mode and time must be the
// same.
func (s *service) findFile(ctx context.Context, l fileEntry) (r io.ReadCloser, err error) {
	if f, ok := s.listing.get(l.Number); ok {
		return f.Open()
	}
	name := string(l.Name)
	_, err = s.sandbox.Files().Each(ctx, func(f backends.File) error {
		if f.Name != name {
			return nil
		}
		if f.Size != l.Size || f.Mode != l.Mode || f.Changed.Unix() != l.Sec || int64(f.Changed.Nanosecond()) != l.Nsec {
			return fmt.Errorf("%s was changed since it was listed", name)
		}
		var err error
		if r, err = f.Open(); err != nil {
			return err
		}
		return errStopped
	})
	switch {
	case errors.Is(err, errStopped):
		return r, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("%s is gone since it was listed", name)
}
