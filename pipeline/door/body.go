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

// body is the body of a request, which must arrive in time. Its deadline stays until the end of the body, also while
// net/http skips the part that a handler has not read. At the end it is cleared, because net/http goes on reading to
// notice a disconnect. A handler with a long answer reads the body first.
//
// Received bytes count for the request until its end or [Visit.ReleaseBody]; without room for them, reading fails
// with a *[Refused].
type body struct {
	io.ReadCloser
	b     bounds
	start time.Time
	n     int64
	idle  time.Duration // maximum pause between parts; 0 bounds the whole body
	ctx   context.Context
	visit *Visit
}

func (d *Door) body(w http.ResponseWriter, r *http.Request, v *Visit) *body {
	b := &body{ReadCloser: http.MaxBytesReader(w, r.Body, d.largest(r)), b: d.b, start: time.Now(), ctx: r.Context(), visit: v}
	b.extend()
	return b
}

// largest returns the maximum size of a request's body.
func (d *Door) largest(r *http.Request) int64 {
	if d.c.Largest == nil {
		return MaxBody
	}
	return cmp.Or(d.c.Largest(r), MaxBody)
}

// AllowSlowBody lets the body of a request arrive as slowly as its sender likes: idle bounds the pause between two
// parts, instead of the total time. Only identified callers may have that.
func AllowSlowBody(r *http.Request, idle time.Duration) {
	if b, is := r.Body.(interface{ AllowIdle(time.Duration) }); is {
		b.AllowIdle(idle)
	}
}

// AllowIdle implements [AllowSlowBody].
func (b *body) AllowIdle(idle time.Duration) {
	b.idle = idle
	b.extend()
}

// BreakOff ends the body of a request when ended is closed or the request's context ends, until stop: otherwise the
// server would wait for a client that sends no more.
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
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // on error, the end of the connection ends the body
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

// response is an answer whose parts must be read in time. The pauses between parts are unlimited.
type response struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	visit   *Visit
}

// Unwrap implements the interface of http.ResponseController.
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

// FlushError implements the interface of http.ResponseController.
func (r *response) FlushError() error { return r.timed(r.rc.Flush) }

// Flush implements http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// timed calls f under a deadline and clears it afterwards, because HTTP/2 would end an idle stream at the deadline.
func (r *response) timed(f func() error) error {
	if !r.visit.deadlines.setWrite(time.Now().Add(r.timeout)) {
		return os.ErrDeadlineExceeded
	}
	defer r.visit.deadlines.setWrite(time.Time{})
	return f()
}

// finish sets the deadline for net/http's own writes after the handler.
func (r *response) finish() { r.visit.deadlines.setWrite(time.Now().Add(r.timeout)) }
