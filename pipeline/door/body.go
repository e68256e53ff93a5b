package door

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// body is the body of a request, which must arrive in time. The deadline stands until the end of the body, also for
// net/http when it skips what a handler has not read; it is taken back then, since net/http goes on to read, to notice
// when the client leaves. A handler that answers for long reads the body first.
//
// What has come counts among what the request holds, until its end or [Visit.ReleaseBody]; where there is no room for it,
// reading ends with a *[Refused].
type body struct {
	io.ReadCloser
	b     bounds
	start time.Time
	n     int64
	idle  time.Duration // of a stream
	ctx   context.Context
	visit *Visit
}

func (d *Door) body(w http.ResponseWriter, r *http.Request, v *Visit) *body {
	b := &body{ReadCloser: http.MaxBytesReader(w, r.Body, d.largest(r)), b: d.b, start: time.Now(), ctx: r.Context(), visit: v}
	b.extend()
	return b
}

// largest returns the most bytes of the body of a request.
func (d *Door) largest(r *http.Request) int64 {
	if d.c.Largest == nil {
		return MaxBody
	}
	return cmp.Or(d.c.Largest(r), MaxBody)
}

// AllowSlowBody has the body of a request arrive as slowly as its sender likes: idle is what may pass between two
// parts, in place of a time for all. Only who has been identified may have that.
func AllowSlowBody(r *http.Request, idle time.Duration) {
	if b, is := r.Body.(interface{ AllowIdle(time.Duration) }); is {
		b.AllowIdle(idle)
	}
}

// AllowIdle is for [AllowSlowBody].
func (b *body) AllowIdle(idle time.Duration) {
	b.idle = idle
	b.extend()
}

// BreakOff has the body of a request end when ended is closed, or with the request's context, until stop: a client that
// sends no more would be waited for.
func BreakOff(w http.ResponseWriter, r *http.Request, ended <-chan struct{}) (stop func()) {
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-over:
			return
		case <-ended:
		case <-r.Context().Done():
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // an error leaves it to the connection's end
	})
	return func() { close(over); watch.Wait() }
}

func (b *body) extend() {
	if b.idle > 0 {
		b.visit.deadlines.setRead(time.Now().Add(b.idle))
		return
	}
	b.visit.deadlines.setRead(b.start.Add(b.b.body + time.Duration(b.n)*time.Second/time.Duration(b.b.rate)))
}

func (b *body) Read(p []byte) (int, error) {
	if b.visit.deadlines.isExpired() {
		return 0, errNoRoom
	}
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	if err == io.EOF {
		b.visit.deadlines.setRead(time.Time{})
	} else {
		b.extend()
	}
	if full := b.visit.reserveBytes(b.ctx, int64(n)); full != nil {
		return 0, full
	}
	return n, err
}

// response is an answer whose parts must be read in time. Between them it may take as long as it likes.
type response struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	visit   *Visit
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *response) Write(p []byte) (n int, err error) {
	if len(p) > writeSize {
		defer r.visit.holdAnswer(int64(len(p)))()
	}
	for {
		part := p[n:min(n+writeSize, len(p))]
		var m int
		err = r.timed(func() error { m, err = r.ResponseWriter.Write(part); return err })
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// FlushError is for http.ResponseController.
func (r *response) FlushError() error { return r.timed(r.rc.Flush) }

// Flush implements http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// timed takes the deadline back afterwards, as HTTP/2 ends a stream then that nobody writes to.
func (r *response) timed(f func() error) error {
	if !r.visit.deadlines.setWrite(time.Now().Add(r.timeout)) {
		return os.ErrDeadlineExceeded
	}
	defer r.visit.deadlines.setWrite(time.Time{})
	return f()
}

// finish is for what net/http writes after the handler.
func (r *response) finish() { r.visit.deadlines.setWrite(time.Now().Add(r.timeout)) }
